// Reading ahead in background threads.
#pragma once

#include <memory>

#include "core/own_process.hpp"
#include "dataset/iterators/share_iterator.hpp"

namespace tasuki {

// Returns the batches of `inner`, in the same order and with the same states, while `threads`
// workers read up to `depth` batches ahead. They begin with the first next(), also after a
// restore(), so that an unused iterator (of an evaluation, for example) holds no batches. A
// worker's exception is thrown by the next() call that would have returned its batch. The
// destructor waits for running reads, but not in a forked child.
class PrefetchIterator final : public Iterator {
 public:
  explicit PrefetchIterator(std::unique_ptr<ShareIterator> inner, int threads = 1, int depth = 4);
  ~PrefetchIterator() override;

  Batch next() override;
  std::int64_t steps_per_epoch() const override;
  EpochLayout layout() const override;
  IteratorState state() const override;
  void restore(const IteratorState& state) override;

 private:
  class Reader;
  OwnProcess<Reader> reader_;
};

}  // namespace tasuki
