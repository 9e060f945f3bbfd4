// ExchangeTrials: chooses the fastest of several exchange modes in the first steps of a training.
#pragma once

#include <string>
#include <vector>

#include "optimizer/exchange_settings.hpp"

namespace tasuki {

// The modes take turns, so that varying load on the machine affects all of them. The caller
// measures and communicates.
class ExchangeTrials {
 public:
  // At least one mode; a single one is chosen without trials.
  explicit ExchangeTrials(std::vector<ExchangeMode> modes);

  bool is_over() const { return seconds_.size() == modes_.size() * rounds; }
  // The mode of the next step. Between the last trial and decide(), it is the first mode.
  ExchangeMode mode() const;
  // Adds the time of the step with mode(), from its first gradient to its last sum. The first step
  // of each mode does not count, because it also sets up what later steps reuse.
  void add(double seconds);
  // The times that count on this rank, in the order of steps; all ranks have the same number.
  const std::vector<double>& seconds() const { return seconds_; }
  // Chooses the mode with the least median time. `slowest`: the time of each step on the slowest
  // rank, in the order of seconds(). Returns one line with the choice and the medians.
  std::string decide(const std::vector<double>& slowest);

 private:
  static constexpr std::size_t rounds = 5;

  std::vector<ExchangeMode> modes_;
  ExchangeMode chosen_;
  std::size_t prepared_ = 0;  // steps that did not count
  std::vector<double> seconds_;
};

}  // namespace tasuki
