// ActivityBoard: what the ranks of a node are doing, in memory that they share.
#pragma once

#include <sys/types.h>

#include <vector>

#include "communicator/mpi/mpi.hpp"
#include "communicator/node/shared_memory.hpp"
#include "core/activity.hpp"

namespace tasuki {

// While it exists, this process publishes its activity (core/activity.hpp) on the board. The thread
// that constructs it is the one whose phases and waits count.
class ActivityBoard {
 public:
  // Collective over the ranks of the job. If the ranks of a node cannot share memory, each has its
  // own board, as if it were alone on the node.
  explicit ActivityBoard(const MpiComm& job);
  ~ActivityBoard() { leave(); }
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  // Shows from now on that this process is in MPI_Finalize or past it, whatever it does, so that
  // neighbours do not miss a rank whose watchdog has ended normally.
  void leave();

  // The ranks of the job on this board, this one included, in ascending order.
  const std::vector<int>& ranks() const { return ranks_; }
  // The processes of ranks(); 0 for those that this one cannot see (in other containers).
  const std::vector<pid_t>& processes() const { return processes_; }
  // The activity of ranks()[place]. May be called from any thread.
  Activity read(std::size_t place) const { return record(place).read(); }

 private:
  ActivityRecord& record(std::size_t place) const;

  std::vector<int> ranks_;
  std::vector<pid_t> processes_;
  // Never unmapped, because a thread may still publish during destruction.
  struct Records {
    std::vector<SharedMapping> shared;
    ActivityRecord alone;
  };
  Records& records_;
  bool has_left_ = false;
};

}  // namespace tasuki
