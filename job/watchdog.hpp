// The watchdog: finds out that a job stands still, although no rank has failed, and ends it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tasuki/job/activity_board.hpp"
#include "tasuki/job/node_heartbeats.hpp"
#include "tasuki/job/stall.hpp"

namespace tasuki {

// After how many seconds in which nothing has moved (find_stall in stall.hpp) there is a warning,
// and the job ends. What may be long work (Stall::may_be_work) has six times as long; a rank that
// gives no sign of life, be it stopped or its machine lost, ends the job after `silence` seconds
// (find_silence). 0: never; a timeout of 0 switches the limit for silence off, too.
//
// A job with a rank that a debugger holds is left alone. Another node knows of that where the rank
// has a neighbour on its node that can tell, or was in the debugger from the start.
struct StallLimits {
  double warning = 60;
  double timeout = 300;
  double silence = 15;
  // What to do about an end that came too early, for messages.
  std::string way_out = "programs set these limits with set_stall_limits()";
  std::string way_out_of_silence = way_out;
};

// For the watchdogs of this process, the present one and later ones; alike on all ranks, please.
// May be called at any time. Work of a program's own that may take longer while others wait for it
// has two ways out: a higher limit, or report_progress() (core/activity.hpp) now and then.
void set_stall_limits(const StallLimits& limits);
StallLimits stall_limits();

// A thread that looks around a few times within the shortest limit (every 5 s at most) and sleeps
// otherwise. It sees what the ranks of its own node are doing in shared memory, so that one that is
// stopped need not speak for itself, and what other nodes tell it (NodeHeartbeats). It calls
// nothing of MPI.
//
// The first rank that is still alive speaks for all, in one line that names who keeps the others
// waiting (and, at the end, a table); should it not be able to, the others do so a little later.
// The end is an error of kind hang that leaves the thread, which run_job turns into the end of the
// job. A launcher (mpirun or Open MPI's daemon) that is stopped is warned about; it ends no job, as
// the ranks can do without it until they write more than its pipes hold.
class Watchdog {
 public:
  // Collective over the job, in the main thread after MPI_Init. Where a rank cannot start the
  // thread, which is warned about, no rank has a watchdog.
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  // What a look goes by: no texts, as the thread allocates nothing while all is well. malloc would
  // give it a region of its own, and with `ulimit -v` that is missed elsewhere.
  struct Limits {
    double warning, timeout, silence;
  };
  static Limits present_limits();
  static double interval_of(const Limits& limits);
  // After how many seconds of this the job ends.
  static double due(const Limits& limits, const Stall& stall);
  void run();
  void stop();
  void look(const Limits& limits, double seconds);
  void look_at_own_node();
  void receive();
  bool is_speaker(double silent_seconds) const;
  void warn(const Limits& limits, double silent_seconds);
  void warn_of_launchers(double silent_seconds);
  void warn_of_unheard(const Limits& limits, double seconds);
  void count_refused();
  void end_job_when_due(const Limits& limits, double seconds, double silent_seconds);
  std::string reason_to_end(const Limits& limits, double silent_seconds) const;

  ActivityBoard board_;
  NodeHeartbeats heartbeats_;
  int rank_ = 0;
  std::vector<RankView> ranks_;
  std::vector<RankActivity> own_node_;
  pid_t launcher_ = 0;  // of this process; 0: none
  bool has_warned_ = false;
  double watched_ = 0;  // seconds
  bool has_looked_for_unheard_ = false;
  std::vector<int> launchers_said_;  // by first rank of their node: the process warned about
  std::int64_t refused_said_ = 0;
  double overdue_ = 0;  // seconds for which this rank has left the last word to another

  bool stopping_ = false;  // under the limits' mutex
  int wake_ = -1;          // readable when the thread has something to look at
  std::thread thread_;
};

}  // namespace tasuki
