#include "tasuki/dataset/iterators/multi_node_iterator.hpp"

#include <utility>
#include <vector>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/dataset/numbers.hpp"

namespace tasuki {
namespace {

// Every rank has the whole of each batch, so that it counts once per rank.
std::int64_t on_all_ranks(std::int64_t size, const Communicator& communicator) {
  return size < 0 ? size : size * communicator.size();
}

class MultiNodeIterator final : public Iterator {
 public:
  MultiNodeIterator(std::unique_ptr<Iterator> iterator, Communicator& communicator, int master)
      : iterator_(std::move(iterator)), communicator_(communicator), master_(master) {
    update([] { return std::vector<std::int64_t>{}; });
  }

  Batch next() override {
    Batch batch;
    const std::vector<std::int64_t> epoch_and_ids = update([&] {
      batch = iterator_->next();
      std::vector<std::int64_t> numbers{batch.epoch};
      numbers.insert(numbers.end(), batch.ids.begin(), batch.ids.end());
      return numbers;
    });
    batch.epoch = epoch_and_ids.at(0);
    batch.ids.assign(epoch_and_ids.begin() + 1, epoch_and_ids.end());
    batch.x = communicator_.bcast(batch.x, master_);
    batch.t = communicator_.bcast(batch.t, master_);
    return batch;
  }

  std::int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  std::int64_t next_global_size() const override { return on_all_ranks(next_size_, communicator_); }
  EpochLayout layout() const override { return layout_; }
  IteratorState state() const override { return state_; }
  void restore(const IteratorState& state) override {
    update([&] {
      iterator_->restore(state);
      return std::vector<std::int64_t>{};
    });
  }

 private:
  // Calls `work` on the master, tells all ranks where its iterator is then, and returns what `work`
  // returned.
  template <class Work>
  std::vector<std::int64_t> update(const Work& work) {
    const Bytes message = run_on_root(communicator_, master_, [&] {
      TASUKI_CHECK(iterator_ != nullptr, "the master of a multi-node iterator has no iterator");
      const std::vector<std::int64_t> result = work();
      const IteratorState now = iterator_->state();
      const EpochLayout layout = iterator_->layout();
      std::vector<std::int64_t> numbers{now.epoch,
                                        now.step,
                                        iterator_->steps_per_epoch(),
                                        iterator_->next_global_size(),
                                        layout.examples,
                                        layout.shards,
                                        layout.global_batch,
                                        layout.is_shuffled,
                                        static_cast<std::int64_t>(layout.seed)};
      numbers.insert(numbers.end(), result.begin(), result.end());
      return encode_numbers(numbers);
    });
    const std::vector<std::int64_t> numbers = decode_numbers(message);
    state_ = {numbers.at(0), numbers.at(1)};
    steps_per_epoch_ = numbers.at(2);
    next_size_ = numbers.at(3);
    layout_ = {numbers.at(4), numbers.at(5), numbers.at(6), numbers.at(7) != 0,
               static_cast<std::uint64_t>(numbers.at(8))};
    return {numbers.begin() + 9, numbers.end()};
  }

  std::unique_ptr<Iterator> iterator_;
  Communicator& communicator_;
  int master_;
  IteratorState state_;
  std::int64_t steps_per_epoch_ = 0, next_size_ = 0;
  EpochLayout layout_;
};

class SynchronizedIterator final : public Iterator {
 public:
  SynchronizedIterator(std::unique_ptr<ShareIterator> iterator, const Communicator& communicator)
      : iterator_(std::move(iterator)), communicator_(communicator) {}

  Batch next() override { return iterator_->next(); }
  std::int64_t steps_per_epoch() const override { return iterator_->steps_per_epoch(); }
  std::int64_t next_global_size() const override {
    return on_all_ranks(iterator_->next_global_size(), communicator_);
  }
  EpochLayout layout() const override { return iterator_->layout(); }
  IteratorState state() const override { return iterator_->state(); }
  void restore(const IteratorState& state) override { iterator_->restore(state); }

 private:
  std::unique_ptr<ShareIterator> iterator_;
  const Communicator& communicator_;
};

}  // namespace

std::unique_ptr<Iterator> create_multi_node_iterator(std::unique_ptr<Iterator> iterator,
                                                     Communicator& communicator, int rank_master) {
  return std::make_unique<MultiNodeIterator>(std::move(iterator), communicator, rank_master);
}

std::unique_ptr<Iterator> create_synchronized_iterator(std::unique_ptr<ShareIterator> iterator,
                                                       Communicator& communicator) {
  const auto own_seed = static_cast<std::int64_t>(iterator->options().seed);
  const Bytes seed = run_on_root(communicator, 0, [&] { return encode_numbers({&own_seed, 1}); });
  iterator->reseed(static_cast<std::uint64_t>(decode_numbers(seed).at(0)));
  return std::make_unique<SynchronizedIterator>(std::move(iterator), communicator);
}

}  // namespace tasuki
