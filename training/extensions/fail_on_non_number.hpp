// FailOnNonNumber: ends a run that has diverged, on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "training/extension.hpp"
#include "training/observation.hpp"

namespace tasuki {

// A run has diverged if the loss (or the loss of one of several optimizers, "main/gen/loss"), a
// parameter or an optimizer's state is not finite, or if the loss exceeds max_loss times the first
// one. The error (ErrorKind::config) names the value, the iteration and the rank. Other observed
// values may be anything: a precision of 0 / 0 does not end a run.
//
// A rank checks what it observes on the host itself, in the same iteration and without a message;
// if it finds something, it ends the job. Values on a GPU are not waited for; they are checked when
// they are reported (LogReport, PrintSteps, and on rank 0 PrintProgress), before a snapshot is
// written, whenever `check` fires, and at the end. The last three also check all parameters and
// states, and what the exchange of gradients keeps for the next step, each rank its own; then the
// ranks exchange what they found. So no snapshot contains a diverged model.
//
// Iterations that the optimizer has left out (StepGuard::skip_non_finite) do not count as
// divergence, unless `most_skipped` of them follow each other. Rank 0 warns of each and says why,
// which takes a message between the ranks; what was observed in it is not reported. The share of
// such iterations is observed as "skipped".
class FailOnNonNumber : public Extension {
 public:
  struct Settings {
    // Limit of the loss as a multiple of the first loss, or of 1 if that was less; 0: any finite
    // loss is accepted.
    double max_loss = 1e6;
    std::string loss = "main/loss";
    int most_skipped = 10;
  };
  FailOnNonNumber(Settings settings, std::unique_ptr<Trigger> check);
  FailOnNonNumber() : FailOnNonNumber(Settings(), every(1, Unit::epoch)) {}

  std::string default_name() const override { return "FailOnNonNumber"; }
  // Before all extensions that report.
  int priority() const override { return priority_editor; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void before_report(Trainer& trainer, const Observation& all) override;
  // Waits for values on a GPU.
  void before_own_report(Trainer& trainer) override;
  void before_save(Trainer& trainer) override { check_all_ranks(trainer); }
  void finalize(Trainer& trainer) override { check_all_ranks(trainer); }
  // The first loss: rank 0's, for all ranks of a resumed run; iterations left out.
  void serialize(const Serializer& serializer) override;

 private:
  using Examples = std::span<const std::int64_t>;  // Updater::last_examples
  // What an iteration of this rank observed, from which examples.
  struct Seen {
    std::int64_t iteration = 0;
    Observation observation;
    std::vector<std::int64_t> examples;
  };
  struct Finding {
    std::int64_t iteration = 0;
    std::string text;      // empty: nothing is wrong
    std::string examples;  // "; its batch has the examples 17, 4, ..."
  };
  struct FindingOfRank {
    Finding finding;
    int rank = 0;
  };
  // Whether it is Settings::loss, or one of several optimizers' losses.
  bool is_loss(std::string_view key) const;
  // Of an observation with a loss that is not finite; else empty.
  Finding find_non_finite(std::int64_t iteration, const Observation& seen, Examples examples) const;
  // The first one of all ranks, by iteration and rank. Collective.
  static FindingOfRank first_of_ranks(const Trainer& trainer, const Finding& own);
  [[noreturn]] static void end_with(const Trainer& trainer, const FindingOfRank& found);
  void judge(std::int64_t iteration, const Observation& seen, Examples examples);
  void judge_unseen();
  // Reports an iteration that all ranks have left out. Collective.
  void pass_over(Trainer& trainer);
  // Throws if this rank has found something, which also ends the others.
  void end_if_found(const Trainer& trainer) const;
  void check_all_ranks(Trainer& trainer);

  Settings settings_;
  std::unique_ptr<Trigger> check_;
  std::optional<double> first_loss_;
  std::optional<Finding> found_;  // the first one that this rank observed
  // Values on a GPU that were not waited for yet, by iteration.
  std::vector<Seen> unseen_;
  std::int64_t checked_iteration_ = -1;  // the last one that all ranks have checked
  std::int64_t updates_left_out_ = 0;    // StepGuard::skipped of all optimizers
  std::int64_t skipped_ = 0;             // iterations
  int skipped_in_a_row_ = 0;
};

}  // namespace tasuki
