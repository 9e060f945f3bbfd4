// The watchdog: finds out that a job stands still, although no rank has failed, and ends it.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "tasuki/communicator/activity_board.hpp"
#include "tasuki/communicator/node_heartbeats.hpp"
#include "tasuki/communicator/stall.hpp"

namespace tasuki {

// After how many seconds in which nothing has moved (find_stall in stall.hpp) there is a warning,
// and the job ends. 0: never. What may be long work (Stall::may_be_work) has six times as long.
struct StallLimits {
  double warning = 60;
  double timeout = 300;
  // What to do about an end that came too early, for messages.
  std::string way_out = "programs set these limits with set_stall_limits()";
};

// For the watchdogs of this process, the present one and later ones; alike on all ranks, please.
// May be called at any time. Work of a program's own that may take longer while others wait for it
// has two ways out: a higher limit, or report_progress() (core/activity.hpp) now and then.
void set_stall_limits(const StallLimits& limits);
StallLimits stall_limits();

// A thread that looks around a few times within the shorter limit (every 5 s at most) and sleeps
// otherwise. It sees what the ranks of its own node are doing in shared memory, so that one that is
// stopped need not speak for itself, and what other nodes tell it (NodeHeartbeats). It calls
// nothing of MPI.
//
// The first rank that is still alive speaks for all, in one line that names who keeps the others
// waiting (and, at the end, a table); should it not be able to, the others do so a little later.
// The end is an error of kind hang that leaves the thread, which run_job turns into the end of the
// job.
class Watchdog {
 public:
  // Collective over the job, in the main thread after MPI_Init.
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  // What a look goes by: no texts, as the thread allocates nothing while all is well. malloc would
  // give it a region of its own, and with `ulimit -v` that is missed elsewhere.
  struct Limits {
    double warning, timeout;
  };
  static Limits present_limits();
  static double interval_of(const Limits& limits);
  // After how many seconds of this the job ends.
  static double due(const Limits& limits, const Stall& stall);
  void run();
  void look(const Limits& limits, double seconds);
  void update(int rank, const Activity& activity);
  bool is_speaker(double silent_seconds) const;
  void warn(const Limits& limits, double silent_seconds);
  void end_job_when_due(const Limits& limits, double seconds, double silent_seconds);

  ActivityBoard board_;
  NodeHeartbeats heartbeats_;
  int rank_ = 0;
  std::vector<RankView> ranks_;
  std::vector<RankActivity> own_node_;
  bool has_warned_ = false;
  double overdue_ = 0;  // seconds for which this rank has left the last word to another

  bool stopping_ = false;  // under the limits' mutex
  std::thread thread_;
};

}  // namespace tasuki
