// NcclMonitor: watches NCCL communicators while the program waits for something else.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

namespace tasuki {

class NcclComm;

// Asks every communicator of the process several times a second whether NCCL has found an error. If
// so, it aborts the communicator, so that nothing on the GPU waits for it any more, and lets the
// error escape from its thread, which ends the job (run_job). Without it, a step that waits for the
// GPU rather than for a communicator would wait forever.
class NcclMonitor {
 public:
  // Lives until the process ends.
  static NcclMonitor& instance();

  void add(NcclComm& comm);
  void remove(NcclComm& comm);

 private:
  NcclMonitor();
  [[noreturn]] void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<NcclComm*> comms_;
};

}  // namespace tasuki
