// FailOnNonNumber: ends a run that has diverged, on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/training/extension.hpp"
#include "tasuki/training/observation.hpp"

namespace tasuki {

// A run has diverged when an observed value or a parameter is not finite, or when the loss has
// passed max_loss times the first one. The error (ErrorKind::config) names the value, the iteration
// and the rank.
//
// What a rank observes on the host it judges itself, in the same iteration and without a message:
// the rank that finds something ends the job. Values that are on a GPU are not waited for: they are
// judged when they are reported (LogReport, PrintSteps, those of rank 0 by PrintProgress), before a
// snapshot is written, whenever `check` fires, and at the end; the last three also look at all
// parameters, and the ranks tell each other what they found. So no snapshot has a broken model in
// it.
class FailOnNonNumber : public Extension {
 public:
  struct Settings {
    // How many times the first loss, or 1 if that was less; 0: any finite loss will do.
    double max_loss = 1e6;
    std::string loss = "main/loss";
  };
  FailOnNonNumber(Settings settings, std::unique_ptr<Trigger> check);
  FailOnNonNumber() : FailOnNonNumber(Settings(), every(1, Unit::epoch)) {}

  std::string default_name() const override { return "FailOnNonNumber"; }
  // Before all that report.
  int priority() const override { return priority_editor; }
  void run(Trainer& trainer) override;
  void before_report(Trainer& trainer, const Observation& all) override;
  // Throws when what this rank has observed shows that the run has diverged. Waits for values on a
  // GPU. Not collective: for reports of one rank.
  void judge_own(const Trainer& trainer);
  void before_save(Trainer& trainer) override { check_all_ranks(trainer); }
  void finalize(Trainer& trainer) override { check_all_ranks(trainer); }
  // The first loss: rank 0's, for all ranks of a resumed run.
  void serialize(const Serializer& serializer) override;

 private:
  struct Finding {
    std::int64_t iteration = 0;
    std::string text;
  };
  void judge(std::int64_t iteration, const Observation& seen);
  void judge_unseen();
  // Throws when this rank has found something; the others are ended with it.
  void end_if_found(const Trainer& trainer) const;
  void check_all_ranks(Trainer& trainer);

  Settings settings_;
  std::unique_ptr<Trigger> check_;
  std::optional<double> first_loss_;
  std::optional<Finding> found_;  // the first that this rank observed
  // By iteration, what was not waited for yet.
  std::vector<std::pair<std::int64_t, Observation>> unseen_;
  std::int64_t checked_iteration_ = -1;  // the last in which all ranks have checked
};

}  // namespace tasuki
