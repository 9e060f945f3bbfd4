// BackgroundThread: a thread that runs functions one after another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "core/own_process.hpp"

namespace tasuki {

class BackgroundThread {
 public:
  // Whether its progress counts as the process's progress for the watchdog (activity.hpp): yes, if
  // the main thread waits for its work.
  enum class Progress : std::uint8_t { counts, does_not_count };
  // The destructor waits for everything that was started, but not in a forked child.
  explicit BackgroundThread(Progress progress = Progress::counts);

  // Runs `work` after everything started before. get() of the future rethrows its exception.
  std::future<void> start(std::function<void()> work);
  // Waits for everything that was started; returns at once in a forked child.
  void wait();
  bool is_this_thread() const { return std::this_thread::get_id() == queue_->thread.get_id(); }

 private:
  struct Queue {
    explicit Queue(Progress progress);
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    void run();

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::packaged_task<void()>> tasks;
    bool stopping = false;
    std::thread thread;
  };

  OwnProcess<Queue> queue_;
};

}  // namespace tasuki
