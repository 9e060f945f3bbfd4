// StepRows: what each step has reported, kept until the ranks exchange it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/observation.hpp"
#include "training/step_times.hpp"

namespace tasuki {

class Trainer;

// A step. Times are rank 0's.
struct StepRow {
  std::int64_t iteration = 0;
  double epoch = 0;         // epochs done, with the fraction of the current one
  double elapsed_time = 0;  // seconds of training, as in the log
  double wall_time = 0;     // seconds since 1970
  double seconds = 0;       // since the step before, evaluation and so on included
  // Of the step on rank 0's first device; only on CPUs, because it would wait for a GPU.
  std::optional<StepTimes> parts = std::nullopt;
  std::optional<double> lr = std::nullopt;
  Observation seen = {};  // until it is taken: of this rank

  struct Value {
    std::string key;
    double mean = 0;
    Reach reach = Reach::rank;
  };
  // The means of what was observed, over at least one example, but for "lr", which is above.
  std::vector<Value> values() const;
  // Names and values of the times: "seconds", and of its parts "input", "forward", "backward",
  // "exchange" and "update".
  std::vector<std::pair<std::string, double>> times() const;
};

class StepRows {
 public:
  // Call it before the first iteration, and then after each.
  void begin(const Trainer& trainer);
  // The host does not wait for a GPU.
  void add(Trainer& trainer);
  std::size_t count() const { return rows_.size(); }
  // The rows since the last call, with the values of all ranks; on ranks other than 0, none.
  // Collective; without a communicator, this rank's.
  std::vector<StepRow> take(Communicator* communicator);

 private:
  std::vector<StepRow> rows_;
  double last_ = 0;  // elapsed seconds
  std::optional<StepTimes> times_;
};

}  // namespace tasuki
