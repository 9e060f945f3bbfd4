// Where the time of training steps goes, on this rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

// Seconds, summed over steps: of wall-clock time, or on a GPU's own clock.
struct StepTimes {
  std::int64_t steps = 0;
  double input = 0;          // waiting for the next batch (a GPU: for anything of the host)
  double compute = 0;        // forward, backward, update
  double communication = 0;  // exchanging gradients, waiting for slower ranks included

  double total() const { return input + compute + communication; }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b) {
    return {a.steps - b.steps, a.input - b.input, a.compute - b.compute,
            a.communication - b.communication};
  }
};

// Those of every rank, in their order. Collective; of this rank alone without a communicator.
std::vector<StepTimes> gather_step_times(const StepTimes& own, Communicator* communicator);

// A heading and one line a rank: mean times of a step and their shares. Of many ranks the first
// ones, and the one of the others that keeps all waiting. Empty when a rank has done no step.
std::string step_time_table(const std::vector<StepTimes>& ranks);

}  // namespace tasuki
