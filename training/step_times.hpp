// The time of training steps on each device, and what it was spent on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

// Seconds, summed over steps: of wall-clock time, or on a GPU's own clock.
struct StepTimes {
  std::int64_t steps = 0;
  double input = 0;          // waiting for the next batch (a GPU: for the host)
  double compute = 0;        // forward, backward, update
  double communication = 0;  // exchanging gradients, waiting for slower devices included

  double total() const { return input + compute + communication; }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b) {
    return {a.steps - b.steps, a.input - b.input, a.compute - b.compute,
            a.communication - b.communication};
  }
};

// A rank's devices: one, or the workers of a process that has several.
using RankTimes = std::vector<StepTimes>;

// Those of every rank, in rank order. Collective; without a communicator only this rank's.
std::vector<RankTimes> gather_step_times(const RankTimes& own, Communicator* communicator);

// A heading and one line per device, named by its rank, or by rank and worker if ranks have
// several: mean times of a step and their shares. If there are many devices: the first ones, and
// the slowest of the others. Empty if a device has done no step.
std::string step_time_table(const std::vector<RankTimes>& ranks);

}  // namespace tasuki
