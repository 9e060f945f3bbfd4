// Watchdog: detects a job that makes no progress although no rank has failed, and ends it.
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

// Seconds without progress (find_stall in stall.hpp) after which there is a warning, and after
// which the job ends. User code may not report progress, so limits are six times longer if the
// stall may be work (Stall::may_be_work). A rank without a sign of life (stopped, or its machine
// lost) ends the job after `silence` seconds (find_silence). 0: never; a timeout of 0 disables
// `silence`, too.
//
// A job with a debugger attached to a rank is left alone. Other nodes know about the debugger if
// another rank on that node reports it, or if it was attached from the start.
struct StallLimits {
  double warning = 60;
  double timeout = 300;
  double silence = 15;
  // For messages: what to do about an end that came too early.
  std::string way_out = "programs set these limits with set_stall_limits()";
  std::string way_out_of_silence = way_out;
};

// Sets the limits for the watchdog of this process, the current one and later ones. May be called
// at any time; all ranks should set the same. User code that may take longer while others wait for
// it sets a higher limit, or calls report_progress() (core/activity.hpp) now and then.
void set_stall_limits(const StallLimits& limits);
StallLimits stall_limits();

// A thread that checks a few times within the shortest limit (at least every 5 s) and otherwise
// sleeps. It reads in shared memory what the ranks of its own node are doing, also of stopped ones,
// and learns about other nodes from their datagrams (NodeHeartbeats). It makes no MPI calls.
//
// The first rank that is alive prints for all: one line that names the ranks that keep the others
// waiting, and before the end a table. If it cannot, the others do so a little later. To end the
// job, the thread throws an error of kind hang, which run_job handles. A stopped launcher (mpirun
// or Open MPI's daemon) only causes a warning, because the ranks run without it until they write
// more than its pipes hold.
class Watchdog {
 public:
  // Collective over the job, in the main thread after MPI_Init. If a rank cannot start the thread,
  // there is a warning and no rank has a watchdog.
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  // StallLimits without its texts: the thread allocates nothing while all is well, because malloc
  // would reserve an arena for it, which counts under `ulimit -v`.
  struct Limits {
    double warning, timeout, silence;
  };
  static Limits present_limits();
  static double interval_of(const Limits& limits);
  // The seconds after which such a stall ends the job.
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
  std::vector<int> launchers_said_;  // by first rank of a node: the launcher warned about
  std::int64_t refused_said_ = 0;
  double overdue_ = 0;  // seconds for which this rank has left the end to another

  bool stopping_ = false;  // under the limits' mutex
  int wake_ = -1;          // a file descriptor; readable when the thread is to check
  std::thread thread_;
};

}  // namespace tasuki
