// ForwardingIterator: the base of iterators that wrap another one.
#pragma once

#include <memory>
#include <utility>

#include "dataset/iterators/iterator.hpp"

namespace tasuki {

// Has the epochs and positions of `inner`; derived classes change the batches.
class ForwardingIterator : public Iterator {
 public:
  explicit ForwardingIterator(std::unique_ptr<Iterator> inner) : inner_(std::move(inner)) {}

  std::int64_t steps_per_epoch() const override { return inner_->steps_per_epoch(); }
  EpochLayout layout() const override { return inner_->layout(); }
  IteratorState state() const override { return inner_->state(); }
  void restore(const IteratorState& state) override { inner_->restore(state); }

 protected:
  Iterator& inner() { return *inner_; }

 private:
  std::unique_ptr<Iterator> inner_;
};

}  // namespace tasuki
