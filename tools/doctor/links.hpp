// Latency and rate of the network between each two hosts.
#pragma once

#include <optional>
#include <vector>

#include "communicator/communicator.hpp"
#include "tools/doctor/report.hpp"

namespace tasuki::doctor {

// Between two ranks, one on each of two hosts, or on one host.
struct PairLink {
  int first = 0, second = 0;
  double latency = 0;           // seconds of a short message: half the fastest round trip
  double bytes_per_second = 0;  // in one direction at a time, of the fastest long message
};

// The partner of `member` in a round of a tournament in which each of `members` meets each other
// once, in `tournament_rounds(members)` rounds; nothing if it rests.
int tournament_rounds(int members);
std::optional<int> partner_in(int round, int member, int members);

// The first ranks of all hosts talk to each other in pairs; of one host, its first two ranks. All
// pairs of a round talk at once. With more than 64 hosts only 64 rounds are played, which leaves
// pairs out. Up to 8 pairs that seem slow are measured again, alone. The result is on rank 0.
// Collective.
std::vector<PairLink> measure_links(Communicator& communicator);

void judge_links(const std::vector<PairLink>& links, Report& report);

}  // namespace tasuki::doctor
