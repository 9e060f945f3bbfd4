// Progress during calls of the system that say nothing.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tasuki {

// While it lives, and for half an hour at most, a thread says report_progress() each second: for
// what may rightly take minutes without a word, such as fsync to a slow disk. Where there can be no
// thread, nobody says anything.
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
