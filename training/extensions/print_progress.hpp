// PrintProgress: an occasional line where there is no progress bar.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "training/extension.hpp"

namespace tasuki {

// If `out` is not a terminal, rank 0 prints a line when neither such a line nor a report of all
// ranks (a row of the table) was printed for `interval` seconds; the first one after only 5 s:
//   iteration 120, epoch 0.31 of 300, loss 2.103 on rank 0, 345.6 examples/s
// and, while an evaluator makes its pass (Extension::watch):
//   evaluating, batch 40 of 79
// The loss covers the rank's part of the last batch (without communication); the speed covers all
// ranks since the previous line, evaluation included. A run that has diverged by then ends instead
// (Extension::before_own_report).
class PrintProgress : public Extension {
 public:
  // `examples`: of an epoch, on all ranks.
  PrintProgress(double interval, std::int64_t examples, std::FILE* out = stdout);

  std::string default_name() const override { return "PrintProgress"; }
  // Runs after PrintReport, in the same iteration.
  int priority() const override { return priority_reader - 15; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void before_report(Trainer&, const Observation&) override { has_report_ = true; }

 private:
  struct Moment {
    double seconds = 0, epoch = 0;
  };

  void run_in_pass(const Trainer& trainer, std::int64_t batch, std::int64_t batches);

  double interval_;
  std::int64_t examples_;
  std::FILE* out_;
  bool is_wanted_ = false;
  bool has_report_ = false;  // of all ranks, since the last iteration
  Moment last_;              // line or report
  double due_ = 0;           // elapsed seconds
};

}  // namespace tasuki
