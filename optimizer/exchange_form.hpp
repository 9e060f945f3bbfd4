// ExchangeForm: when the gradients of a model travel, and which thread does it; and the choice
// among forms by trying them in the first steps. All forms give the same bits.
#pragma once

#include <string>
#include <vector>

namespace tasuki {

enum class ExchangeForm {
  whole,   // after the backward pass
  slices,  // during it: the thread that computes does what it can between layers
  thread,  // during it: a thread of the communicator does it
  queue,   // during it: a GPU does it, in its queue of transfers
};
// "after the backward pass", ...
const char* describe(ExchangeForm form);

// Each form is tried in several steps; the forms take turns. The class itself neither measures nor
// communicates: the caller does.
class ExchangeTrials {
 public:
  // At least one form; a single one needs no trial.
  explicit ExchangeTrials(std::vector<ExchangeForm> forms);

  bool is_over() const { return seconds_.size() == forms_.size() * rounds; }
  // The form for the next step: in turn, then forms.front() until decide() has chosen one.
  ExchangeForm form() const;
  // Adds how long the step with form() took, from its first gradient to its last sum. The first
  // step of each form does not count, because it also prepares the form.
  void add(double seconds);
  // This rank's times that count, in the order of steps; as many on all ranks.
  const std::vector<double>& seconds() const { return seconds_; }
  // Takes the form with the least median of `slowest`, seconds() of the slowest rank in each step.
  // Returns one line: "gradients travel ...", with the medians.
  std::string decide(const std::vector<double>& slowest);

 private:
  static constexpr std::size_t rounds = 5;

  std::vector<ExchangeForm> forms_;
  ExchangeForm chosen_;
  std::size_t prepared_ = 0;  // steps that did not count
  std::vector<double> seconds_;
};

}  // namespace tasuki
