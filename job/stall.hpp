// Whether a job stands still, who is to blame, and how that is said: from what is known of each
// rank, whichever way it came.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasuki/core/activity.hpp"
#include "tasuki/job/heartbeat_datagram.hpp"

namespace tasuki {

// One rank as another one sees it. Seconds are those in which the one that looks was running
// itself: of a job that was stopped as a whole, or of a machine that slept, none have passed.
struct RankView {
  std::string host;
  bool is_known = false;  // false: nothing was ever heard of it; all else is then meaningless
  Activity activity{};
  double still = 0;   // since it moved
  double silent = 0;  // since it gave a sign of life
  // A debugger holds its process, as far as is known. Such a rank may be still and silent.
  bool is_traced = false;
  // The process of its mpirun, or of Open MPI's daemon on its host, while that is stopped; 0: it
  // runs.
  int stopped_launcher = 0;
  double launcher_still = 0;  // seconds since it was stopped
};

// What was heard of a rank, or seen of it, begins its seconds anew where it has moved or beaten. So
// does a debugger that lets it go: as long as it was held, it could do neither.
void update(RankView& view, const RankActivity& seen);

struct Stall {
  // Ranks that keep the others waiting, in their order. Empty: they wait for each other.
  std::vector<int> culprits;
  // False: ranks of which nothing is known may be at work, for all that one can tell.
  bool is_certain = true;
  // True: for all that one can tell it may be long work, as nobody waits, or only for ranks that
  // run code of the program's own, which need not report progress.
  bool may_be_work = false;
  // True: a debugger holds a rank, so that nobody can tell.
  bool is_debugged = false;
  double seconds = 0;  // since anything moved
};

// A job stands still when no rank that is known of has moved for `seconds` and somebody is held up:
// a rank waits for others or its GPU, or is stuck in a part of a training that reports progress. A
// program's own work alone is nobody's business. To blame are
//   ranks without a sign of life for `silent_seconds` (stopped, or their machine is gone);
//   ranks that wait for nobody;
//   if there are none: ranks whose program has returned, ranks that are behind in the operations of
//   a communicator, or else those that are in another operation than most.
// A rank that waits for the others to end holds up nobody (run_job has a limit for that).
std::optional<Stall> find_stall(std::span<const RankView> ranks, double seconds,
                                double silent_seconds);

// Ranks that have neither given a sign of life nor moved for `seconds`, whatever the others do.
// Those that a debugger holds are left out, and those last seen in MPI_Finalize, which may have
// ended well.
std::optional<Stall> find_silence(std::span<const RankView> ranks, double seconds);

// The ranks that wait in the operation in which most do, those in `without` left out; none when
// several operations have as many. To be used where nothing has moved for a while.
std::vector<int> largest_meeting(std::span<const RankView> ranks,
                                 std::span<const int> without = {});

}  // namespace tasuki
