#include "dataset/iterators/multi_node_iterator.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "communicator/number_bytes.hpp"
#include "communicator/run_on_root.hpp"

namespace tasuki {
namespace {

// Every rank has the whole batch, so it counts once per rank.
Batch on_all_ranks(Batch batch, const Communicator& communicator) {
  if (const auto size = batch.global_size()) batch.set_global_size(*size * communicator.size());
  return batch;
}

// Sent to all ranks before a batch's values.
struct BatchOutline {
  struct Field {
    std::string name;
    bool is_target = false, is_ragged = false;
  };
  std::int64_t epoch = 0;
  std::optional<std::int64_t> global_size;
  std::vector<Field> fields;
  std::vector<std::int64_t> ids;
  std::optional<std::vector<std::int64_t>> counted;

  explicit BatchOutline(const Batch& batch)
      : epoch(batch.epoch()),
        global_size(batch.global_size()),
        ids(batch.ids().begin(), batch.ids().end()),
        counted(batch.counted()) {
    for (const BatchField& field : batch.fields())
      fields.push_back({field.name, field.is_target, field.lengths.defined()});
  }
  explicit BatchOutline(std::span<const std::int64_t> numbers) {
    NumberReader reader(numbers);
    epoch = reader.next();
    if (const std::int64_t size = reader.next(); size >= 0) global_size = size;
    fields.resize(static_cast<std::size_t>(reader.next()));
    for (Field& field : fields) {
      field.is_target = reader.next() != 0;
      field.is_ragged = reader.next() != 0;
      field.name = reader.text();
    }
    const bool has_counted = reader.next() != 0;
    const std::span<const std::int64_t> rest = reader.rest();
    const std::size_t examples = rest.size() / (has_counted ? 2 : 1);
    ids.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(examples));
    if (has_counted)
      counted.emplace(rest.begin() + static_cast<std::ptrdiff_t>(examples), rest.end());
  }
  std::vector<std::int64_t> numbers() const {
    std::vector<std::int64_t> result{epoch, global_size.value_or(-1), std::ssize(fields)};
    for (const Field& field : fields) {
      result.insert(result.end(), {field.is_target, field.is_ragged});
      append_text(result, field.name);
    }
    result.push_back(counted.has_value());
    result.insert(result.end(), ids.begin(), ids.end());
    if (counted) result.insert(result.end(), counted->begin(), counted->end());
    return result;
  }
};

class MultiNodeIterator final : public Iterator {
 public:
  MultiNodeIterator(std::unique_ptr<Iterator> iterator, Communicator& communicator, int master)
      : iterator_(std::move(iterator)), communicator_(communicator), master_(master) {
    update([] { return std::vector<std::int64_t>{}; });
  }

  Batch next() override {
    Batch own;
    BatchOutline outline(update([&] {
      own = iterator_->next();
      return BatchOutline(own).numbers();
    }));
    const bool is_master = communicator_.rank() == master_;
    std::vector<BatchField> fields;
    for (BatchOutline::Field& field : outline.fields) {
      const Tensor values = communicator_.bcast(is_master ? own[field.name] : Tensor(), master_);
      Tensor lengths;
      if (field.is_ragged)
        lengths = communicator_.bcast(is_master ? own.lengths(field.name) : Tensor(), master_);
      fields.push_back({.name = std::move(field.name),
                        .values = values,
                        .lengths = lengths,
                        .is_target = field.is_target});
    }
    Batch batch(std::move(fields), std::move(outline.ids), outline.epoch);
    batch.set_global_size(outline.global_size);
    if (outline.counted) batch.set_counted(*std::move(outline.counted));
    return on_all_ranks(std::move(batch), communicator_);
  }

  std::int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  EpochLayout layout() const override { return layout_; }
  IteratorState state() const override { return state_; }
  void restore(const IteratorState& state) override {
    update([&] {
      iterator_->restore(state);
      return std::vector<std::int64_t>{};
    });
  }

 private:
  // Calls `work` on the master, sends all ranks the new position of its iterator, and returns the
  // result of `work`.
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
                                        layout.examples,
                                        layout.shards,
                                        layout.global_batch,
                                        layout.is_shuffled,
                                        static_cast<std::int64_t>(layout.seed),
                                        layout.bucket_steps};
      numbers.insert(numbers.end(), result.begin(), result.end());
      return encode_numbers(numbers);
    });
    const std::vector<std::int64_t> numbers = decode_numbers(message);
    state_ = {numbers.at(0), numbers.at(1)};
    steps_per_epoch_ = numbers.at(2);
    layout_ = {numbers.at(3),
               numbers.at(4),
               numbers.at(5),
               numbers.at(6) != 0,
               static_cast<std::uint64_t>(numbers.at(7)),
               numbers.at(8)};
    return {numbers.begin() + 9, numbers.end()};
  }

  std::unique_ptr<Iterator> iterator_;
  Communicator& communicator_;
  int master_;
  IteratorState state_;
  std::int64_t steps_per_epoch_ = 0;
  EpochLayout layout_;
};

class SynchronizedIterator final : public Iterator {
 public:
  SynchronizedIterator(std::unique_ptr<ShareIterator> iterator, const Communicator& communicator)
      : iterator_(std::move(iterator)), communicator_(communicator) {}

  Batch next() override { return on_all_ranks(iterator_->next(), communicator_); }
  std::int64_t steps_per_epoch() const override { return iterator_->steps_per_epoch(); }
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
