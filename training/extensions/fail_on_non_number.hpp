// FailOnNonNumber: ends a run that has diverged, on all ranks at the same iteration.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/training/extension.hpp"
#include "tasuki/training/observation.hpp"

namespace tasuki {

// Notes the first iteration in which this rank observed a value that is not finite; whenever
// `check` fires (and at the end) also looks at all parameters, and the ranks agree. The error names
// iteration, rank and value. Runs before snapshots, so that no broken model is saved when both are
// due together. What a GPU still computes is looked at then, or after many iterations.
class FailOnNonNumber : public Extension {
 public:
  explicit FailOnNonNumber(std::unique_ptr<Trigger> check = every(1, Unit::epoch));

  std::string default_name() const override { return "FailOnNonNumber"; }
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void check_all_ranks(Trainer& trainer);
  void look_at_unseen();

  std::unique_ptr<Trigger> check_;
  std::string first_bad_;  // what this rank observed; empty: nothing
  // By iteration, what nobody has waited for yet.
  std::vector<std::pair<std::int64_t, Observation>> unseen_;
};

}  // namespace tasuki
