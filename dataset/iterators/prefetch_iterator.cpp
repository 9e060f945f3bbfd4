#include "dataset/iterators/prefetch_iterator.hpp"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tasuki {

class PrefetchIterator::Reader {
 public:
  Reader(std::unique_ptr<ShareIterator> inner, int threads, int depth);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Batch next();
  void restore(const IteratorState& state);
  const ShareIterator& inner() const { return *inner_; }
  const IteratorState& state() const { return state_; }

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

  std::mutex mutex_;  // guards all below, and inner_ except in load()
  std::condition_variable room_, filled_;
  std::vector<Slot> slots_;               // a ring
  std::uint64_t issued_ = 0, given_ = 0;  // batches
  int reading_ = 0;                       // workers that are reading
  bool running_ = false;                  // workers may begin to read
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

PrefetchIterator::Reader::Reader(std::unique_ptr<ShareIterator> inner, int threads, int depth)
    : inner_(std::move(inner)), state_(inner_->state()) {
  TASUKI_CHECK(threads > 0 && depth > 0, "{} threads reading {} batches ahead", threads, depth);
  slots_.resize(static_cast<std::size_t>(depth));
  for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

PrefetchIterator::Reader::~Reader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void PrefetchIterator::Reader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock,
               [this] { return stopping_ || (running_ && issued_ - given_ < slots_.size()); });
    if (stopping_) return;
    Slot& slot = slots_[issued_++ % slots_.size()];
    ++reading_;
    try {
      const BatchPlan plan = inner_->plan_next();
      inner_->advance();
      slot.after = inner_->state();
      lock.unlock();
      Batch batch = inner_->load(plan);
      lock.lock();
      slot.batch = std::move(batch);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      slot.error = std::current_exception();
      running_ = false;  // until next() has thrown the error
    }
    slot.ready = true;
    --reading_;
    filled_.notify_all();
  }
}

Batch PrefetchIterator::Reader::next() {
  std::unique_lock lock(mutex_);
  if (issued_ == given_) {
    running_ = true;
    room_.notify_all();
  }
  Slot& slot = slots_[given_ % slots_.size()];
  filled_.wait(lock, [&slot] { return slot.ready; });
  if (slot.error) {
    const std::exception_ptr error = slot.error;
    restart(lock, state_);
    std::rethrow_exception(error);
  }
  Slot taken = std::exchange(slot, {});
  state_ = taken.after;
  ++given_;
  lock.unlock();
  room_.notify_one();
  return std::move(taken.batch);
}

void PrefetchIterator::Reader::restore(const IteratorState& state) {
  std::unique_lock lock(mutex_);
  restart(lock, state);
}

void PrefetchIterator::Reader::restart(std::unique_lock<std::mutex>& lock,
                                       const IteratorState& state) {
  const bool was_running = std::exchange(running_, false);
  filled_.wait(lock, [this] { return reading_ == 0; });
  try {
    inner_->restore(state);
    for (Slot& slot : slots_) slot = {};
    issued_ = given_;
    state_ = inner_->state();
  } catch (...) {
    running_ = was_running;
    room_.notify_all();
    throw;
  }
}

PrefetchIterator::PrefetchIterator(std::unique_ptr<ShareIterator> inner, int threads, int depth)
    : reader_(std::move(inner), threads, depth) {}

PrefetchIterator::~PrefetchIterator() = default;

Batch PrefetchIterator::next() {
  return reader_->next();
}

std::int64_t PrefetchIterator::steps_per_epoch() const {
  return reader_->inner().steps_per_epoch();
}

EpochLayout PrefetchIterator::layout() const {
  return reader_->inner().layout();
}

IteratorState PrefetchIterator::state() const {
  return reader_->state();
}

void PrefetchIterator::restore(const IteratorState& state) {
  reader_->restore(state);
}

}  // namespace tasuki
