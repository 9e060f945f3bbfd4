#include "tools/predict/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/activity.hpp"
#include "models/googlenet_bn.hpp"

namespace tasuki::predict {
namespace {

template <class T>
std::vector<T> gather_values(const std::vector<T>& own, Communicator& communicator) {
  std::vector<T> all;
  const Tensor sent = Tensor::from(std::span(own), Shape{std::ssize(own)});
  for (const Tensor& part : communicator.gather(sent)) {
    const std::span<const T> values = part.span<T>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// log(sum of exp(score)): the log of a probability is its score minus this.
double log_sum_of(std::span<const float> scores) {
  const double highest = std::ranges::max(scores);
  double sum = 0;
  for (const float each : scores) sum += std::exp(each - highest);
  return std::log(sum) + highest;
}

std::int32_t label_in(const Batch& batch, std::span<const std::int32_t> labels, std::size_t i) {
  if (!labels.empty()) return labels[static_cast<std::size_t>(batch.ids()[i])];
  return -1;
}

double loss_of(std::span<const float> scores, std::int32_t label) {
  return log_sum_of(scores) - scores[static_cast<std::size_t>(label)];
}

// On the CPU, examples x classes.
struct Scores {
  Tensor main, first, second;  // first and second: GoogLeNetBn's auxiliary classifiers
};

Scores scores_of(Layer& network, const Variable& x) {
  const auto on_cpu = [](const Variable& scores) {
    return scores.value().plain().to(Device::cpu());
  };
  auto* const googlenet = dynamic_cast<GoogLeNetBn*>(&network);
  if (googlenet == nullptr) return {.main = on_cpu(network.forward(x)), .first = {}, .second = {}};
  const auto [main, first, second] = googlenet->all_scores(x);
  return {on_cpu(main), on_cpu(first), on_cpu(second)};
}

std::span<const float> row(const Tensor& scores, std::size_t i) {
  const auto classes = static_cast<std::size_t>(scores.shape()[1]);
  return scores.span<float>().subspan(i * classes, classes);
}

}  // namespace

void Predictions::add(std::span<const float> scores, std::int32_t label) {
  const auto number = static_cast<std::size_t>(top);
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t i) { return scores[static_cast<std::size_t>(i)]; };
  const bool are_finite =
      std::ranges::all_of(scores, [](float each) { return std::isfinite(each); });
  if (are_finite)
    std::partial_sort(order.begin(), order.begin() + top, order.end(),
                      [&](std::int32_t a, std::int32_t b) {
                        return score(a) != score(b) ? score(a) > score(b) : a < b;
                      });
  const double log_sum = are_finite ? log_sum_of(scores) : std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < number; ++i) {
    classes.push_back(order[i]);
    probabilities.push_back(std::exp(score(order[i]) - log_sum));
  }
  if (label < 0) return;
  labels.push_back(label);
  losses.push_back(log_sum - score(label));
}

std::optional<std::int64_t> Predictions::first_not_finite() const {
  const auto found =
      std::ranges::find_if(probabilities, [](double each) { return std::isnan(each); });
  if (found == probabilities.end()) return std::nullopt;
  return (found - probabilities.begin()) / top;
}

Predictions predict_batches(Layer& network, Iterator& batches, std::span<const std::int32_t> labels,
                            std::int64_t top) {
  const PhaseScope evaluating(Phase::evaluating);
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  const Device device = network.device();
  Predictions found;
  found.top = top;
  for (std::int64_t step = batches.steps_per_epoch(); step > 0; --step) {
    report_progress();
    const Batch batch = batches.next();
    if (batch.size() == 0) continue;
    const Batch there = batch.to(device);
    const Scores scores = scores_of(network, Variable(there["x"]));
    const Tensor targets =
        labels.empty() && batch.has("t") ? there["t"].to(Device::cpu()) : Tensor();
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size()); ++i) {
      const std::int32_t label =
          targets ? targets.span<std::int32_t>()[i] : label_in(batch, labels, i);
      found.add(row(scores.main, i), label);
      if (label < 0 || !scores.first) continue;
      found.first_losses.push_back(loss_of(row(scores.first, i), label));
      found.second_losses.push_back(loss_of(row(scores.second, i), label));
    }
  }
  return found;
}

Predictions gather(const Predictions& own, Communicator& communicator) {
  return {own.top,
          gather_values(own.classes, communicator),
          gather_values(own.probabilities, communicator),
          gather_values(own.labels, communicator),
          gather_values(own.losses, communicator),
          gather_values(own.first_losses, communicator),
          gather_values(own.second_losses, communicator)};
}

}  // namespace tasuki::predict
