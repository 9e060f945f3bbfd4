// Where the time of training steps goes, on each device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// Seconds, summed over steps: of wall-clock time, or on a GPU's own clock.
struct StepTimes {
  std::int64_t steps = 0;
  double input = 0;          // waiting for the next batch (a GPU: for anything of the host)
  double compute = 0;        // forward, backward, update
  double communication = 0;  // exchanging gradients, waiting for slower devices included

  double total() const { return input + compute + communication; }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b) {
    return {a.steps - b.steps, a.input - b.input, a.compute - b.compute,
            a.communication - b.communication};
  }
};

// When more seconds than these lie between two updates, somebody did something else in between,
// which is no part of any step (StepMoment::resume).
inline constexpr double longest_pause = 1e-3;

// Of `steps` steps that a device noted on `clock` (tensor/step_clock.hpp); waits for it.
StepTimes read_step_clock(const Tensor& clock, std::int64_t steps);

// A rank's devices: one, or the workers of a process that has several.
using RankTimes = std::vector<StepTimes>;

// Those of every rank, in their order. Collective; of this rank alone without a communicator.
std::vector<RankTimes> gather_step_times(const RankTimes& own, Communicator* communicator);

// A heading and one line for each device, named by its rank, or by rank and worker where ranks have
// several: mean times of a step and their shares. Of many devices the first ones, and the one of
// the others that keeps all waiting. Empty when one has done no step.
std::string step_time_table(const std::vector<RankTimes>& ranks);

}  // namespace tasuki
