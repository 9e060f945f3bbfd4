// How a batch is divided among the workers of one process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tasuki {

// Divides `total` in proportion to `weights` (not negative, at least one above zero): each part is
// rounded down, and the remainder goes one by one to the largest fractions, the first among equals.
// Adds up to `total`; a weight of 0 gets nothing.
std::vector<std::int64_t> split_batch(std::int64_t total, std::span<const double> weights);

// Weights that stay as given, or follow the measured times of the workers.
//
// Measured: after some steps in which a new split settles (primitives for new shapes are made), the
// seconds per example of each worker are collected over a window of steps; their medians make the
// next weights, in inverse proportion, if that shortens the longest part by 3 % or more. Times that
// do not grow in proportion to the part (a constant cost per step) converge in a few rounds. After
// a window without change, times are not requested for a while. The same times give the same
// weights.
class BatchSplit {
 public:
  static BatchSplit even(std::size_t workers);
  static BatchSplit fixed(std::vector<double> weights);  // as split_batch takes them
  static BatchSplit measured(std::size_t workers);       // even at first

  std::size_t workers() const { return weights_.size(); }
  // Measured: every worker gets at least one example if there are enough, because otherwise its
  // speed could never be measured again.
  std::vector<std::int64_t> parts(std::int64_t total) const;
  // Shares of a batch, adding up to 1.
  const std::vector<double>& weights() const { return weights_; }
  // "0.667:0.333".
  std::string text() const;

  bool is_measured() const { return is_measured_; }
  // Whether observe() will use the times of the next step.
  bool wants_times() const { return is_measured_ && steps_to_skip_ == 0; }
  // After each step: the parts and their seconds (ignored unless wants_times() was true before).
  // True if the weights changed.
  bool observe(std::span<const std::int64_t> parts, std::span<const double> seconds);
  // Continues with the weights of an earlier run; has no effect unless measured and for as many
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
