// Detects stalls, silent ranks and nodes, and who causes them: pure functions of what is known
// about each rank.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/activity.hpp"
#include "job/heartbeat_datagram.hpp"

namespace tasuki {

// One rank as seen by another. Seconds count only while the observer itself runs: none pass while
// the whole job is stopped or the machine sleeps.
struct RankView {
  std::string host;
  bool is_known = false;  // false: never heard of, and all other members are meaningless
  Activity activity{};
  double still = 0;   // since it last made progress
  double silent = 0;  // since its last sign of life
  // A debugger is known to be attached to its process, which may then be still and silent.
  bool is_traced = false;
  // The process id of its mpirun, or of Open MPI's daemon on its host, if that is stopped; else 0.
  int stopped_launcher = 0;
  double launcher_still = 0;  // seconds since it was stopped
  std::int64_t memory = 0;    // resident bytes of its process; 0: unknown
};

// Whether the rank's watchdog has ended as it should, and with it all signs of life: at the end of
// its program, or with its JobGuard.
bool has_ended(const RankView& rank, double silent_seconds);

// Updates the view of a rank with news of it. `still` and `silent` start again from 0 if the rank
// has made progress or given a sign of life, and if a debugger has released it. News that other
// news has overtaken is ignored.
void update(RankView& view, const RankActivity& seen);

struct Stall {
  // The ranks that keep the others waiting, in ascending order. Empty: they wait for each other.
  std::vector<int> culprits;
  // False: ranks that nothing is known about may be working.
  bool is_certain = true;
  // True: it may be long work. No rank waits, or only for ranks that run user code, which often
  // reports no progress.
  bool may_be_work = false;
  // True: a debugger is attached to a rank, so the stall may be intended.
  bool is_debugged = false;
  double seconds = 0;  // since the last progress of any rank
};

// A job is stalled if no known rank has made progress for `seconds`, and a rank waits for others or
// for its GPU, or is in a part of training that reports progress. User code alone is not a stall.
// The culprits are
//   ranks without a sign of life for `silent_seconds` (stopped, or their machine is lost);
//   ranks that do not wait;
//   if there are none: ranks whose program has returned, else ranks that are behind in the
//   operations of a communicator, else ranks that others wait for in a message (at the end of a
//   chain of such waits) and that are in no message themselves, else ranks that are in another
//   operation than most.
// Ranks that have_ended() are culprits only if no other can be found and all ranks are known.
// Waiting for the other ranks at the end of the program is not a stall (run_job limits it).
std::optional<Stall> find_stall(std::span<const RankView> ranks, double seconds,
                                double silent_seconds);

// Ranks that have given no sign of life and made no progress for `seconds`, whatever the others do.
// Leaves out ranks that have a debugger attached, and ranks last seen in MPI_Finalize, which may
// have ended normally.
std::optional<Stall> find_silence(std::span<const RankView> ranks, double seconds);

// The ranks in the operation in which most ranks wait, leaving out those in `without`; none if
// several operations have equally many. Meaningful only if no rank has made progress for a while.
std::vector<int> largest_meeting(std::span<const RankView> ranks,
                                 std::span<const int> without = {});

// The lowest rank that waits in a message for one of `culprits`, and those in the same operation;
// in ascending order.
std::vector<int> waiting_for(std::span<const int> culprits, std::span<const RankView> ranks);

}  // namespace tasuki
