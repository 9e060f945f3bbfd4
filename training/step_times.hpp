// The time of training steps on each device, divided into the parts of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"

namespace tasuki {

// Seconds, summed over steps: of wall-clock time, or on a GPU's own clock. The parts of a step are
// as in StepPart.
struct StepTimes {
  std::int64_t steps = 0;
  double input = 0, forward = 0, backward = 0, exchange = 0, update = 0;
  // As in TransferTimes; 0 where they are not measured (on GPUs).
  double transfer = 0, exposed = 0;

  double compute() const { return forward + backward + update; }
  double total() const { return input + compute() + exchange; }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b) {
    return {a.steps - b.steps,       a.input - b.input,       a.forward - b.forward,
            a.backward - b.backward, a.exchange - b.exchange, a.update - b.update,
            a.transfer - b.transfer, a.exposed - b.exposed};
  }
};

// A rank's devices: one, or the workers of a process that has several.
using RankTimes = std::vector<StepTimes>;

// The times of every rank, in rank order. Collective; without a communicator only this rank's.
std::vector<RankTimes> gather_step_times(const RankTimes& own, Communicator* communicator);

// Reads the bytes of such a list; an error of kind data if they are something else.
RankTimes decode_step_times(std::span<const std::byte> bytes);

// A heading and one line per device, named by its rank, or by rank and worker ("0.1") if ranks have
// several: mean milliseconds of a step's parts and their shares. If there are many devices: the
// first ones, and the slowest of the others. If there are several, a line follows that says how
// much of a step the exchange takes, how much of the transfer is hidden behind the computation, and
// which device is the slowest: the one that waits least for the others. Empty if a device has done
// no step.
std::string step_time_table(const std::vector<RankTimes>& ranks);

}  // namespace tasuki
