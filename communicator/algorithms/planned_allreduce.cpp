#include "communicator/algorithms/planned_allreduce.hpp"

#include <numeric>
#include <utility>

#include "communicator/algorithms/allreduce_plans.hpp"
#include "communicator/mpi/transfer.hpp"
#include "core/polite_wait.hpp"
#include "core/stopwatch.hpp"

namespace tasuki {
namespace {

double bytes_of(Range range, DType type) {
  return static_cast<double>(range.size()) * static_cast<double>(size_of(type));
}

std::vector<double> bytes_of_parts(const Division& division, DType type) {
  std::vector<double> bytes;
  for (const std::vector<Range>& part : division.parts) {
    double& of_part = bytes.emplace_back(0);
    for (const Range& range : part) of_part += bytes_of(range, type);
  }
  return bytes;
}

}  // namespace

std::string PlannedAllreduce::describe() const {
  return settings_.algorithm ? name_of(*settings_.algorithm) : "the fastest algorithm as predicted";
}

std::optional<AllreduceAlgorithm> PlannedAllreduce::wanted_for(const Division& division) const {
  const bool is_for_mpi = settings_.algorithm == AllreduceAlgorithm::mpi;
  return is_for_mpi && division.is_scattered() ? std::nullopt : settings_.algorithm;
}

AllreduceAlgorithm PlannedAllreduce::algorithm_for(const Division& division, DType type) const {
  if (const auto wanted = wanted_for(division)) return *wanted;
  if (division.is_scattered())
    return fastest_scatter(bytes_of_parts(division, type), settings_.network);
  return fastest_algorithm(bytes_of(division.common, type), ranks_, settings_.network);
}

bool PlannedAllreduce::is_left_to_mpi(const Division& division, DType type) const {
  return !division.is_scattered() && !division.shards &&
         algorithm_for(division, type) == AllreduceAlgorithm::mpi;
}

MessagePlan PlannedAllreduce::messages_for(const Division& division, DType type) const {
  const Range common = division.common;
  if (ranks_ == 1 || is_left_to_mpi(division, type)) {
    MessagePlan plan{.need = {common}, .completion = {common}};
    for (const std::vector<Range>& part : division.parts) {
      plan.need.insert(plan.need.end(), part.begin(), part.end());
      plan.completion.insert(plan.completion.end(), part.begin(), part.end());
    }
    return plan;
  }
  const VectorPieces pieces(common, size_of(type), settings_.sizes.message_chunk);
  if (division.shards) return plan_shard_sums(pieces, division.parts, *division.shards, rank_);
  const AllreduceAlgorithm algorithm = algorithm_for(division, type);
  if (!division.is_scattered()) return plan_allreduce(algorithm, pieces, rank_, ranks_);
  MessagePlan plan = plan_reduce_scatter(algorithm, pieces, division.parts, rank_);
  if (common.size() > 0) {
    const AllreduceAlgorithm fastest =
        fastest_algorithm(bytes_of(common, type), ranks_, settings_.network);
    plan.append(plan_allreduce(wanted_for(division).value_or(fastest), pieces, rank_, ranks_));
  }
  return plan;
}

const MessagePlan& PlannedAllreduce::plan_for(const Division& division, DType type) {
  return planned(division, type).messages;
}

const PlannedAllreduce::Planned& PlannedAllreduce::planned(const Division& division, DType type) {
  // Gradients have a few lengths, or some hundred in small ranges; other values may have any.
  constexpr std::size_t most_plans = 4096;
  std::vector<std::int64_t> key = division.key();
  key.push_back(static_cast<std::int64_t>(size_of(type)));
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  if (plans_.size() == most_plans) plans_.clear();
  return plans_[std::move(key)] = {messages_for(division, type), expected_of(division, type)};
}

std::unique_ptr<PlanRun> PlannedAllreduce::start(void* values, const Division& division, DType type,
                                                 ReduceOp op, MPI_Comm comm, PieceWork work,
                                                 const Wire& wire) {
  return std::make_unique<PlanRun>(values, type, op, plan_for(division, wire.type_of(type)), comm,
                                   std::move(work), wire);
}

AllreduceOutcomes::Outcome PlannedAllreduce::expected_of(const Division& division,
                                                         DType type) const {
  const std::vector<double> parts = bytes_of_parts(division, type);
  const double common = bytes_of(division.common, type);
  if (division.shards) {
    // All arrays of what other ranks add up, and then what is common.
    const double all = std::accumulate(parts.begin(), parts.end(), common);
    const AllreduceCost cost{
        .steps = 2,
        .bytes =
            (all * static_cast<double>(division.shards->most()) + common) * (ranks_ - 1) / ranks_};
    return {.operation = "sum of shards",
            .algorithm = AllreduceAlgorithm::direct,
            .ranks = ranks_,
            .bytes = all,
            .predicted = predicted_seconds(AllreduceAlgorithm::direct, cost, settings_.network)};
  }
  const AllreduceAlgorithm algorithm = algorithm_for(division, type);
  const AllreduceCost cost = division.is_scattered() ? cost_of_scatter(algorithm, parts)
                                                     : cost_of(algorithm, common, ranks_);
  return {.operation = division.is_scattered() ? "reduce-scatter" : "allreduce",
          .algorithm = algorithm,
          .ranks = ranks_,
          .bytes = std::accumulate(parts.begin(), parts.end(), common),
          .predicted = predicted_seconds(algorithm, cost, settings_.network)};
}

void PlannedAllreduce::run(void* values, const Division& division, DType type, ReduceOp op,
                           MPI_Comm comm, const PieceWork& work, const Wire& wire) {
  const DType sent = wire.type_of(type);
  const auto& [plan, expected] = planned(division, sent);
  if (!plan.sends.empty() || !plan.receives.empty()) {
    Stopwatch watch;
    PlanRun(values, type, op, plan, comm, work, wire).finish();
    return outcomes_.add(expected, watch.lap());
  }
  PoliteWait waiting;
  for (const Range piece : plan.need)
    while (work.prepare && !work.prepare(piece)) waiting.pause();
  if (ranks_ > 1 && is_left_to_mpi(division, sent))
    allreduce(values, division.common.size(), type, op, comm, settings_.sizes.mpi_call);
  for (const Range piece : plan.completion)
    if (work.finished) work.finished(piece);
}

}  // namespace tasuki
