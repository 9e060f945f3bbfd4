#include "core/background_thread.hpp"

#include <optional>
#include <utility>

#include "core/activity.hpp"

namespace tasuki {

BackgroundThread::Queue::Queue(Progress progress)
    : thread([this, progress] {
        std::optional<UncountedProgress> uncounted;
        if (progress == Progress::does_not_count) uncounted.emplace();
        run();
      }) {}

BackgroundThread::Queue::~Queue() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_one();
  thread.join();
}

void BackgroundThread::Queue::run() {
  for (;;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || !tasks.empty(); });
    if (tasks.empty()) return;
    auto task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    task();
  }
}

BackgroundThread::BackgroundThread(Progress progress) : queue_(progress) {}

std::future<void> BackgroundThread::start(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  auto result = task.get_future();
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back(std::move(task));
  }
  queue_->changed.notify_one();
  return result;
}

void BackgroundThread::wait() {
  if (queue_.is_here()) start([] {}).wait();
}

}  // namespace tasuki
