#include "training/accumulated_batches.hpp"

namespace tasuki {

RandomKeys& RandomKeysOfBatches::of(std::int64_t batch) {
  while (std::ssize(keys_) <= batch) keys_.push_back(std::make_unique<RandomKeys>(seed_));
  return *keys_[static_cast<std::size_t>(batch)];
}

AccumulatedBatches::AccumulatedBatches(StepRunner& runner, Iterator& iterator,
                                       RandomKeysOfBatches& keys, std::int64_t most)
    : runner_(runner), iterator_(iterator), keys_(keys), most_(most) {}

Batch AccumulatedBatches::next() {
  Batch batch = runner_.read(iterator_);
  if (most_ > 1 && !all_) all_.emplace();
  ++taken_;
  is_last_ = taken_ == most_ || iterator_.is_new_epoch();
  have_examples_ = have_examples_ || batch.size() > 0;
  is_weighted_ = is_weighted_ || batch.counted();
  const std::optional<std::int64_t> more = batch.global_size();
  global_examples_ =
      global_examples_ && more ? std::optional(*global_examples_ + *more) : std::nullopt;
  // The runner skips a batch if no rank has examples of it. The last batch must not be skipped, as
  // its work exchanges the gradients of all batches.
  if (is_last_ && more == 0) batch.set_global_size(global_examples_);
  random().follow(batch.epoch(), batch.ids());
  return batch;
}

void AccumulatedBatches::succeeded() {
  if (all_) all_->succeeded();
}

}  // namespace tasuki
