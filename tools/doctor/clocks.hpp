// How far the clocks of hosts are apart.
#pragma once

#include <span>
#include <vector>

#include "communicator/communicator.hpp"
#include "tools/doctor/report.hpp"

namespace tasuki::doctor {

// Seconds of the clocks when a question was sent, when the other host answered it, and when the
// answer came.
struct TimeStamps {
  double sent = 0, answered = 0, received = 0;
};
struct ClockOffset {
  int rank = 0;            // of the other host
  double offset = 0;       // how much its clock is ahead of rank 0's, in seconds
  double uncertainty = 0;  // the offset is wrong by at most so much
};

// By the fastest exchange: the answer was given at some time between question and answer (Cristian,
// "Probabilistic clock synchronization", 1989).
ClockOffset offset_by(std::span<const TimeStamps> exchanges);

// Rank 0 asks the first rank of each other host, up to 64 of them. The result is on rank 0.
// Collective.
std::vector<ClockOffset> measure_clocks(const Communicator& communicator);

void judge_clocks(const std::vector<ClockOffset>& offsets, Report& report);

}  // namespace tasuki::doctor
