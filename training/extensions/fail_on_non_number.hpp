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

// A run has diverged if a loss ("main/loss", or "main/gen/loss" with several optimizers), a
// parameter or an optimizer's state is not finite, or if a loss exceeds max_loss times the first
// one. The error (ErrorKind::config) names the value, the iteration and the rank. Other observed
// values need not be finite: a precision of 0 / 0 does not end a run.
//
// Each rank checks the values that it observes on the host, in the same iteration and without a
// message: the rank that finds something ends the job. Values on a GPU are not waited for. They are
// checked when they are reported (LogReport, PrintSteps, rank 0's by PrintProgress), before a
// snapshot is written, whenever `check` fires, and at the end. The last three checks include each
// rank's parameters and states, and the values that the gradient exchange keeps for the next step;
// the ranks exchange their findings. So no snapshot contains a diverged model.
//
// Skipped iterations (StepGuard::skip_non_finite) do not count as divergence until there are
// `most_skipped` in a row. Rank 0 warns of each with its reason, which takes a message between the
// ranks; values observed in it are not reported. The share of skipped iterations is observed as
// "skipped".
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
  // Runs before all extensions that report.
  int priority() const override { return priority_editor; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void before_report(Trainer& trainer, const Observation& all) override;
  // Waits for values on a GPU.
  void before_own_report(Trainer& trainer) override;
  void before_save(Trainer& trainer) override { check_all_ranks(trainer); }
  void finalize(Trainer& trainer) override { check_all_ranks(trainer); }
  // Saves the first loss (rank 0's, for all ranks of a resumed run) and skipped iterations.
  void serialize(const Serializer& serializer) override;

 private:
  using Examples = std::span<const std::int64_t>;  // Updater::last_examples
  // The values that this rank observed in an iteration, with their examples.
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
  // Describes an observation with a loss that is not finite; empty if it is finite.
  Finding find_non_finite(std::int64_t iteration, const Observation& seen, Examples examples) const;
  // The first finding of all ranks, by iteration and rank. Collective.
  static FindingOfRank first_of_ranks(const Trainer& trainer, const Finding& own);
  [[noreturn]] static void end_with(const Trainer& trainer, const FindingOfRank& found);
  void judge(std::int64_t iteration, const Observation& seen, Examples examples);
  void judge_unseen();
  // Reports an iteration that all ranks have skipped. Collective.
  void pass_over(Trainer& trainer);
  // Throws if this rank has found something, which also ends the other ranks.
  void end_if_found(const Trainer& trainer) const;
  void check_all_ranks(Trainer& trainer);

  Settings settings_;
  std::unique_ptr<Trigger> check_;
  std::optional<double> first_loss_;
  std::optional<Finding> found_;  // the first one that this rank observed
  // Values still on a GPU, by iteration.
  std::vector<Seen> unseen_;
  std::int64_t checked_iteration_ = -1;  // the last one that all ranks have checked
  std::int64_t updates_left_out_ = 0;    // StepGuard::skipped of all optimizers
  std::int64_t skipped_ = 0;             // iterations
  int skipped_in_a_row_ = 0;
};

}  // namespace tasuki
