// Reports progress during long system calls.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tasuki {

// While it exists, but for at most half an hour, a thread calls report_progress() every second: for
// calls that may take minutes, such as fsync to a slow disk. There are no reports if the thread
// cannot be started, or if the calling thread's progress does not count (UncountedProgress).
class LongCall {
 public:
  LongCall();
  ~LongCall();
  LongCall(const LongCall&) = delete;
  LongCall& operator=(const LongCall&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tasuki
