// What the ranks of a node are doing, in memory that they share.
#pragma once

#include <sys/types.h>

#include <vector>

#include "tasuki/communicator/node/shared_memory.hpp"
#include "tasuki/core/activity.hpp"

namespace tasuki {

// From its making to its end this process publishes its activity (core/activity.hpp) on the board;
// the thread that makes it is the one that counts.
class ActivityBoard {
 public:
  // Collective over the job. Where the ranks of a node cannot share memory each has a board of its
  // own, as if it were alone on its node.
  ActivityBoard();
  ~ActivityBoard();
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  // Ranks of the job whose activity is here, in their order; this one is among them.
  const std::vector<int>& ranks() const { return ranks_; }
  // The processes of ranks(), 0 where this one cannot see them (in containers of their own).
  const std::vector<pid_t>& processes() const { return processes_; }
  // Of ranks()[place]. From any thread.
  Activity read(std::size_t place) const { return record(place).read(); }

 private:
  ActivityRecord& record(std::size_t place) const;

  std::vector<int> ranks_;
  std::vector<pid_t> processes_;
  // Never unmapped: a thread that is late may still publish.
  struct Records {
    std::vector<SharedMapping> shared;
    ActivityRecord alone;
  };
  Records& records_;
};

}  // namespace tasuki
