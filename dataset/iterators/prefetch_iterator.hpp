// Reading ahead in background threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tasuki/dataset/iterators/share_iterator.hpp"

namespace tasuki {

// Returns the batches of `inner`, in the same order and with the same states, while `threads`
// workers read up to `depth` batches ahead. They begin with the first next(), also after a
// restore(), so that an unused iterator (of an evaluation) holds no batches. An exception of a
// worker is thrown by the next() that would have met it. The destructor waits for running reads.
class PrefetchIterator final : public Iterator {
 public:
  explicit PrefetchIterator(std::unique_ptr<ShareIterator> inner, int threads = 1, int depth = 4);
  ~PrefetchIterator() override;

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return inner_->steps_per_epoch(); }
  EpochLayout layout() const override { return inner_->layout(); }
  IteratorState state() const override { return state_; }
  void restore(const IteratorState& state) override;

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    IteratorState after;  // of inner_
    bool ready = false;
  };

  void work();
  void restart(std::unique_lock<std::mutex>& lock, const IteratorState& state);

  std::unique_ptr<ShareIterator> inner_;
  IteratorState state_;  // after the last batch that was returned

  std::mutex mutex_;  // guards all below, and inner_ but for load()
  std::condition_variable room_, filled_;
  std::vector<Slot> slots_;               // a ring
  std::uint64_t issued_ = 0, given_ = 0;  // batches
  int reading_ = 0;                       // workers that are reading
  bool running_ = false;                  // workers may begin to read
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tasuki
