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

// Each form is tried in several steps, which take turns. Pure: the caller measures, and brings
// together what ranks have measured.
class ExchangeTrials {
 public:
  // At least one form; a single one needs no trial.
  explicit ExchangeTrials(std::vector<ExchangeForm> forms);

  bool is_over() const { return seconds_.size() == forms_.size() * rounds; }
  // What the next step uses; when all is over, what decide() found, at first forms.front().
  ExchangeForm form() const;
  // The step with form() took so long, from its first gradient to its last sum. The first steps of
  // each form, in which it prepares itself, do not count.
  void add(double seconds);
  // Of this rank, as far as they count; the same number on all ranks.
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
