// BackgroundThread: a thread that runs functions one after another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace tasuki {

class BackgroundThread {
 public:
  // Whether the watchdog takes its progress for that of the process (activity.hpp): yes, if the
  // main thread waits for its work.
  enum class Progress : std::uint8_t { counts, does_not_count };
  explicit BackgroundThread(Progress progress = Progress::counts);
  // Waits for everything that was started.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Runs `work` after everything started before. get() of the future rethrows its exception.
  std::future<void> start(std::function<void()> work);
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tasuki
