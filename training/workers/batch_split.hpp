// How a batch is dealt to the workers of one process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tasuki {

// Parts of `total` in proportion to `weights` (not negative, at least one above zero): each rounded
// down, and what is left goes one by one to the largest remainders, the first among equals. Adds up
// to `total`; a weight of 0 gets nothing.
std::vector<std::int64_t> split_batch(std::int64_t total, std::span<const double> weights);

// Weights that stay as given, or follow what the workers were measured to take.
//
// Measured: after steps in which a new split settles (primitives for new shapes are made), the
// seconds per example of each worker are collected over a window of steps; their medians make the
// next weights, in inverse proportion, if that shortens the longest part by 3 % or more. Times that
// do not grow in proportion to the part (a cost of each step) are met in a few rounds. Once a
// window changed nothing, times are not asked for during a while. The same times give the same
// weights.
class BatchSplit {
 public:
  static BatchSplit even(std::size_t workers);
  static BatchSplit fixed(std::vector<double> weights);  // as split_batch takes them
  static BatchSplit measured(std::size_t workers);       // even at first

  std::size_t workers() const { return weights_.size(); }
  // Measured: every worker has at least one example where there are enough, as it could never show
  // again how fast it is.
  std::vector<std::int64_t> parts(std::int64_t total) const;
  // Shares of a batch, adding up to 1.
  const std::vector<double>& weights() const { return weights_; }
  // "0.667:0.333".
  std::string text() const;

  bool is_measured() const { return is_measured_; }
  // Whether observe() will look at the times of the next step.
  bool wants_times() const { return is_measured_ && steps_to_skip_ == 0; }
  // After each step: the parts and the seconds they took (not read unless wants_times() before).
  // True when the weights changed.
  bool observe(std::span<const std::int64_t> parts, std::span<const double> seconds);
  // Goes on with these weights, from a run before; of no effect unless measured and of as many
  // workers.
  void resume(const std::vector<double>& weights);

 private:
  BatchSplit(std::vector<double> weights, bool is_measured);
  bool rebalance();

  std::vector<double> weights_;
  bool is_measured_;
  std::int64_t steps_to_skip_;
  std::int64_t largest_total_ = 0;
  std::vector<std::vector<double>> window_;  // seconds per example, of each worker
};

}  // namespace tasuki
