// Watchdog: detects a job that makes no progress although no rank has failed, and ends it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "job/activity_board.hpp"
#include "job/node_heartbeats.hpp"
#include "job/stall.hpp"
#include "job/stall_limits.hpp"

namespace tasuki {

// A thread that checks a few times within the shortest limit (at least every 5 s) and otherwise
// sleeps. It reads in shared memory what the ranks of its node are doing, also stopped ones,
// and learns about other nodes from their datagrams (NodeHeartbeats). It makes no MPI calls.
//
// SIGUSR2 (signals.hpp) makes all nodes say at once what their ranks are doing, and a moment
// later the first rank that is alive prints a table of all of them; at most one a second.
//
// The first rank that is alive prints for all: one line that names the ranks that keep the others
// waiting, and before the end a table. If it cannot, the others do so a little later. To end the
// job, the thread throws an error of kind hang, which ends it (job/job_failure.hpp). A stopped
// launcher (mpirun or Open MPI's daemon) only causes a warning, because the ranks run without it
// until they write more than its pipes hold.
//
// Its destructor tells the other nodes, so that they do not take this rank for lost.
class Watchdog {
 public:
  // Collective over the ranks of the job, in the thread whose phases and waits count. If a rank
  // cannot start the thread, there is a warning and no rank has a watchdog. Ranks are numbered as
  // in `job`, which is not used after the constructor.
  explicit Watchdog(const MpiComm& job);
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
  // Seconds after which a rank that has not been heard of counts as silent in what is printed.
  static double missed_looks(const Limits& limits);
  // Seconds after which such a stall ends the job.
  static double due(const Limits& limits, const Stall& stall);
  void run();
  void stop();
  void say_farewell();
  // Counts these seconds towards the table that is due.
  void count_to_table(double seconds);
  void print_table(double silent_seconds) const;
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

  // The number of a rank of MPI_COMM_WORLD in the job; -1: it is not in the job.
  std::int64_t number_in_job(std::int64_t world_rank) const;

  ActivityBoard board_;
  NodeHeartbeats heartbeats_;
  int rank_ = 0;
  std::vector<int> world_ranks_;  // of the ranks of the job
  std::vector<RankView> ranks_;
  std::vector<RankActivity> own_node_;
  pid_t launcher_ = 0;              // of this process; 0: none
  bool passes_no_signals_ = false;  // the launcher, SIGUSR2 to other hosts
  bool has_warned_ = false;
  double watched_ = 0;  // seconds
  bool has_looked_for_unheard_ = false;
  std::vector<int> launchers_said_;  // by first rank of a node: the launcher warned about
  std::int64_t refused_said_ = 0;
  double overdue_ = 0;              // seconds for which this rank has left the end to another
  std::optional<double> table_in_;  // seconds until the table that was asked for is printed
  double without_table_ = 0;        // seconds for which another table must not be asked for
  bool asks_others_ = false;        // for their heartbeats, with the next one
  bool is_asked_ = false;           // by another node, for the next one at once

  bool stopping_ = false;  // under the limits' mutex
  int wake_ = -1;          // a file descriptor; readable when the thread is to check
  std::thread thread_;
};

}  // namespace tasuki
