// A network's answers: the classes with the highest scores, and their probabilities.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "dataset/iterators/iterator.hpp"
#include "nn/layer.hpp"

namespace tasuki::predict {

// Predictions for examples, in order. The softmax is computed in float64.
struct Predictions {
  std::int64_t top = 1;               // classes kept for each example
  std::vector<std::int32_t> classes;  // examples x top, the most probable first (among equal ones
                                      // the lowest number)
  std::vector<double> probabilities;  // examples x top
  // Of labelled examples; otherwise empty:
  std::vector<std::int32_t> labels;
  std::vector<double> losses;  // -log of the probability of the label
  // The losses of GoogLeNetBn's auxiliary classifiers, which contribute to its loss; empty for
  // other networks.
  std::vector<double> first_losses, second_losses;

  std::int64_t examples() const { return std::ssize(classes) / top; }
  std::int32_t first(std::int64_t i) const { return classes[static_cast<std::size_t>(i * top)]; }
  bool has_labels() const { return !labels.empty(); }

  // Appends a row of scores; `label` -1: no label. If the scores are not finite, the probabilities
  // are NaN.
  void add(std::span<const float> scores, std::int32_t label);
  // The first example whose scores were not finite.
  std::optional<std::int64_t> first_not_finite() const;
};

// Runs one epoch of an iterator through a network, in evaluation mode. Labels come from the
// batches, or, if `labels` is not empty, from there by the examples' ids.
Predictions predict_batches(Layer& network, Iterator& batches, std::span<const std::int32_t> labels,
                            std::int64_t top);

// The predictions of all ranks, rank by rank; empty except at the root. Collective.
Predictions gather(const Predictions& own, Communicator& communicator);

}  // namespace tasuki::predict
