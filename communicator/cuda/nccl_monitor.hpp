// Looks after NCCL communicators while the program waits for something else.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

namespace tasuki {

class NcclComm;

// Asks every communicator of the process a few times a second whether NCCL has met an error. One
// that has is aborted, so that nothing on the GPU waits for it any more, and the error leaves the
// monitor's thread as an exception, which ends the job (run_job): a step that waits for the GPU,
// and not for a communicator, would otherwise wait forever.
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
