#include "tools/simulate/model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace tasuki::simulate {
namespace {

// log of Phi(x); exact where Phi(x) is near 1.
double log_of_normal(double x) {
  return std::log1p(-std::erfc(x / std::numbers::sqrt2) / 2);
}

double allreduce_seconds(double bytes, int ranks, const Link& link,
                         std::optional<AllreduceAlgorithm> algorithm) {
  if (ranks < 2) return 0;
  return predicted_seconds(algorithm.value_or(fastest_algorithm(bytes, ranks, link)), bytes, ranks,
                           link);
}

}  // namespace

double expected_maximum(double count) {
  TASUKI_CHECK(count >= 1, "the largest of {} numbers", count);
  // Trapezoids; beyond these bounds both integrands are below 1e-15 for up to 1e6 numbers.
  constexpr double bound = 10, width = 1.0 / 256;
  constexpr int pieces = static_cast<int>(bound / width);
  double sum = 0;
  for (int i = 0; i <= pieces; ++i) {
    const double x = i * width, weight = i == 0 || i == pieces ? 0.5 : 1;
    // Phi(-x) is too small for log1p where x is large.
    const double below = std::pow(std::erfc(x / std::numbers::sqrt2) / 2, count);
    sum += weight * (-std::expm1(count * log_of_normal(x)) - below);
  }
  return sum * width;
}

double exchange_seconds(double bytes, int ranks, const Cluster& cluster) {
  const int inside = std::min(ranks, cluster.ranks_per_node);
  const int nodes = (ranks + inside - 1) / inside;
  if (nodes == 1) return allreduce_seconds(bytes, inside, cluster.inside, cluster.algorithm);
  if (cluster.is_hierarchical)
    return allreduce_seconds(bytes, inside, cluster.inside, AllreduceAlgorithm::ring) +
           allreduce_seconds(bytes, nodes, cluster.between, cluster.algorithm);
  // In a ring over all ranks, one rank per node sends out of it; in the other algorithms, all ranks
  // do.
  const double ring = predicted_seconds(AllreduceAlgorithm::ring, bytes, ranks, cluster.between);
  if (cluster.algorithm == AllreduceAlgorithm::ring) return ring;
  Link shared = cluster.between;
  shared.bytes_per_second /= inside;
  const double others = allreduce_seconds(bytes, ranks, shared, cluster.algorithm);
  return cluster.algorithm ? others : std::min(ring, others);
}

double end_of_exchange(const Workload& workload, int ranks, const Cluster& cluster, bool overlaps) {
  double end = overlaps ? 0 : workload.backward;
  for (const GradientRange& range : workload.ranges)
    end = std::max(end, overlaps ? range.ready : 0) + exchange_seconds(range.bytes, ranks, cluster);
  return end;
}

Prediction predict(const Workload& workload, int ranks, const Cluster& cluster, bool overlaps) {
  if (ranks == 1) return {.step = workload.compute() + workload.update};
  Prediction of;
  for (const GradientRange& range : workload.ranges)
    of.exchange += exchange_seconds(range.bytes, ranks, cluster);
  of.waiting = workload.jitter * expected_maximum(ranks);
  of.exposed =
      std::max(0.0, end_of_exchange(workload, ranks, cluster, overlaps) - workload.backward);
  of.step = workload.compute() + of.waiting + of.exposed + workload.update;
  return of;
}

Prediction predict_local(const Workload& workload, int ranks, const Cluster& cluster, bool overlaps,
                         const LocalSync& sync) {
  const int inside = std::min(ranks, cluster.ranks_per_node);
  const int nodes = (ranks + inside - 1) / inside;
  Prediction of = predict(workload, inside, cluster, overlaps);
  if (nodes == 1) return of;
  double bytes = 0;
  for (const GradientRange& range : workload.ranges) bytes += range.bytes;
  const double every = sync.every;
  const double exchange = exchange_seconds(bytes, ranks, cluster);
  const double exposed = std::max(0.0, exchange - (sync.overlaps ? every * of.step : 0)) / every;
  const double waiting = workload.jitter * expected_maximum(nodes) / std::sqrt(every);
  of.exchange += exchange / every;
  of.exposed += exposed;
  of.waiting += waiting;
  of.step += exposed + waiting;
  return of;
}

Workload with_batch(const Workload& workload, double factor) {
  Workload scaled = workload;
  for (double* const seconds : {&scaled.input, &scaled.forward, &scaled.backward, &scaled.jitter})
    *seconds *= factor;
  for (GradientRange& range : scaled.ranges) range.ready *= factor;
  return scaled;
}

Workload with_recompute(const Workload& workload, double seconds) {
  Workload longer = workload;
  longer.backward = std::max(0.0, workload.backward + seconds);
  if (workload.backward <= 0) return longer;
  for (GradientRange& range : longer.ranges) range.ready *= longer.backward / workload.backward;
  return longer;
}

Workload with_passes(const Workload& workload, std::int64_t passes) {
  const auto count = static_cast<double>(passes);
  Workload divided = workload;
  for (GradientRange& range : divided.ranges)
    range.ready = (workload.backward * (count - 1) + range.ready) / count;
  return divided;
}

Prediction predict_sharded(const Workload& workload, int ranks, const Cluster& cluster,
                           bool overlaps, const Shards& shards) {
  Workload divided = workload;
  for (GradientRange& range : divided.ranges) range.bytes /= 2;
  divided.update *= static_cast<double>(std::min(ranks, cluster.ranks_per_node)) / ranks;
  const auto passes = static_cast<double>(shards.exchanged_passes);
  Prediction of = predict(with_batch(divided, 1 / passes), ranks, cluster, overlaps);
  of.step = passes * (of.step - divided.update) + divided.update;
  for (double* const seconds : {&of.exchange, &of.exposed, &of.waiting}) *seconds *= passes;
  const double gather = exchange_seconds(shards.weight_bytes / 2, ranks, cluster);
  for (double* const seconds : {&of.step, &of.exchange, &of.exposed}) *seconds += gather;
  return of;
}

}  // namespace tasuki::simulate
