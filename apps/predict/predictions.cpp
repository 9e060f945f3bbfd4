#include "predict/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"

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

std::int32_t label_in(const Batch& batch, std::span<const std::int32_t> labels, std::size_t i) {
  if (!labels.empty()) return labels[static_cast<std::size_t>(batch.ids()[i])];
  return -1;
}

}  // namespace

void Predictions::add(std::span<const float> scores, std::int32_t label) {
  const auto number = static_cast<std::size_t>(top);
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t i) { return scores[static_cast<std::size_t>(i)]; };
  if (!std::ranges::all_of(scores, [](float each) { return std::isfinite(each); }))
    fail(ErrorKind::data,
         "the model's scores for an example are not finite numbers; its training diverged, or the "
         "example is far from what it was trained on");
  std::partial_sort(order.begin(), order.begin() + top, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : a < b;
                    });
  const double highest = score(order[0]);
  double sum = 0;
  for (const float each : scores) sum += std::exp(each - highest);
  for (std::size_t i = 0; i < number; ++i) {
    classes.push_back(order[i]);
    probabilities.push_back(std::exp(score(order[i]) - highest) / sum);
  }
  if (label < 0) return;
  labels.push_back(label);
  losses.push_back(std::log(sum) + highest - score(label));
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
    const Tensor scores = network.forward(Variable(there["x"])).value().plain().to(Device::cpu());
    const auto classes = static_cast<std::size_t>(scores.shape()[1]);
    const Tensor targets =
        labels.empty() && batch.has("t") ? there["t"].to(Device::cpu()) : Tensor();
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size()); ++i)
      found.add(scores.span<float>().subspan(i * classes, classes),
                targets ? targets.span<std::int32_t>()[i] : label_in(batch, labels, i));
  }
  return found;
}

Predictions gather(const Predictions& own, Communicator& communicator) {
  return {own.top, gather_values(own.classes, communicator),
          gather_values(own.probabilities, communicator), gather_values(own.labels, communicator),
          gather_values(own.losses, communicator)};
}

}  // namespace tasuki::predict
