// WatchedPass: a pass over a data set that reports its position, for a display of progress.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace tasuki {

// A base of evaluators. User code that overrides the pass must call begin_batch, too.
class WatchedPass {
 public:
  // Called before each batch of this rank with its number, counted from 1, and the number of
  // batches.
  using Watcher = std::function<void(std::int64_t batch, std::int64_t batches)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

 protected:
  WatchedPass() = default;
  ~WatchedPass() = default;
  WatchedPass(const WatchedPass&) = default;
  WatchedPass& operator=(const WatchedPass&) = default;

  void begin_batch(std::int64_t batch, std::int64_t batches) const {
    if (watcher_) watcher_(batch, batches);
  }

 private:
  Watcher watcher_;
};

}  // namespace tasuki
