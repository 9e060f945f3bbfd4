#include "tasuki/core/background_thread.hpp"

#include <optional>
#include <utility>

#include "tasuki/core/uncounted_progress.hpp"

namespace tasuki {

BackgroundThread::BackgroundThread(Progress progress)
    : thread_([this, progress] {
        std::optional<UncountedProgress> uncounted;
        if (progress == Progress::does_not_count) uncounted.emplace();
        run();
      }) {}

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::future<void> BackgroundThread::start(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  auto result = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
  return result;
}

void BackgroundThread::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
  }
}

}  // namespace tasuki
