#include "tasuki/dataset/iterators/device_iterator.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/dataset/iterators/forwarding_iterator.hpp"
#include "tasuki/dataset/iterators/prefetch_iterator.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

Shape batch_shape(std::int64_t examples, const Shape& example) {
  std::vector<std::int64_t> sizes = {examples};
  sizes.insert(sizes.end(), example.begin(), example.end());
  return Shape(sizes);
}

// All examples of a data set on a device, as stored.
struct ResidentExamples {
  Tensor values, labels;

  ResidentExamples(const Dataset& dataset, Device device) {
    const DatasetHeader& header = dataset.header();
    values = Tensor::empty(batch_shape(header.count, header.example_shape), header.stored, device);
    labels = Tensor::empty({header.count}, DType::int32, device);
    constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
    const auto example_bytes = static_cast<std::int64_t>(header.value_bytes());
    const std::int64_t piece =
        std::max<std::int64_t>(1, piece_bytes / std::max<std::int64_t>(1, example_bytes));
    for (std::int64_t begin = 0; begin < header.count; begin += piece) {
      const std::int64_t end = std::min(begin + piece, header.count);
      std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
      std::iota(indices.begin(), indices.end(), begin);
      const Tensor x = Tensor::empty(batch_shape(end - begin, header.example_shape), header.stored);
      const Tensor t = Tensor::empty({end - begin}, DType::int32);
      dataset.read_stored(indices, static_cast<std::byte*>(x.raw()), t.data<std::int32_t>());
      check_labels(dataset, indices, t.span<std::int32_t>());
      values.slice(begin, end).copy_from(x);
      labels.slice(begin, end).copy_from(t);
    }
  }
};

// What both ways share: the order comes from the inner iterator, numbers travel in a block.
class DeviceIterator : public ForwardingIterator {
 public:
  DeviceIterator(std::unique_ptr<Iterator> inner, Device device, std::int64_t largest_batch,
                 DType dtype)
      : ForwardingIterator(std::move(inner)),
        device_(device),
        largest_batch_(largest_batch),
        dtype_(dtype) {}

  Batch next() override {
    Batch batch = announce();
    fill(batch);
    return batch;
  }

  void join(StepBlock& block) override {
    TASUKI_CHECK(block_ == nullptr, "an iterator joins one step's block only");
    block_ = &block;
    ids_ = block.reserve(largest_batch_, DType::int64);
  }
  bool can_be_recorded() const override { return true; }

 protected:
  // Without anybody's block to join, one of its own, which fill() sends.
  StepBlock& block() {
    if (block_ == nullptr) {
      own_block_ = std::make_unique<StepBlock>(device_);
      join(*own_block_);
    }
    return *block_;
  }
  void announce_ids(const Batch& batch) {
    std::ranges::copy(batch.ids(), block().host<std::int64_t>(ids_).begin());
  }
  void begin_fill(Batch& batch) {
    if (own_block_) own_block_->send();
    batch.set_device_ids(on_device(ids_, batch.size()));
  }
  Tensor on_device(const StepBlock::Field& field, std::int64_t count) {
    return block().on_device(field).slice(0, count);
  }

  Device device_;
  std::int64_t largest_batch_;
  DType dtype_;

 private:
  StepBlock* block_ = nullptr;
  std::unique_ptr<StepBlock> own_block_;
  StepBlock::Field ids_;
};

class ResidentIterator final : public DeviceIterator {
 public:
  // `share` is `inner`, as what it is.
  ResidentIterator(ShareIterator& share, std::unique_ptr<Iterator> inner, Device device,
                   DType dtype)
      : DeviceIterator(std::move(inner), device, share.largest_batch(), dtype),
        share_(share),
        transform_(share.dataset().device_transform()),
        examples_(share.dataset(), device) {}

  void join(StepBlock& block) override {
    DeviceIterator::join(block);
    indices_ = block.reserve(largest_batch_, DType::int64);
    epoch_ = block.reserve(1, DType::int64);
  }
  Batch announce() override {
    const BatchPlan plan = share_.plan_next();
    share_.advance();
    std::vector<std::int64_t> ids;
    ids.reserve(plan.indices.size());
    for (const std::int64_t i : plan.indices) ids.push_back(share_.dataset().id(i));
    Batch batch({}, std::move(ids), plan.epoch);
    batch.set_global_size(plan.global_size);
    announce_ids(batch);
    std::copy(plan.indices.begin(), plan.indices.end(),
              block().host<std::int64_t>(indices_).begin());
    block().host<std::int64_t>(epoch_)[0] = plan.epoch;
    return batch;
  }
  void fill(Batch& batch) override {
    begin_fill(batch);
    Backend& gathering = backend(device_);
    const Tensor indices = on_device(indices_, batch.size());
    const Tensor x = transform_
                         ? gathering.transform_images(examples_.values, indices, batch.device_ids(),
                                                      on_device(epoch_, 1), *transform_, dtype_)
                         : gathering.gather(examples_.values, indices, dtype_);
    batch.set({.name = "x", .values = x});
    batch.set({.name = "t",
               .values = gathering.gather(examples_.labels, indices, DType::int32),
               .is_target = true});
  }

 private:
  ShareIterator& share_;
  std::optional<SeededImageTransform> transform_;
  ResidentExamples examples_;
  StepBlock::Field indices_, epoch_;
};

// Batches always arrive in the same place, so that recorded work finds them there.
class CopyingIterator final : public DeviceIterator {
 public:
  CopyingIterator(std::unique_ptr<Iterator> inner, Device device, std::int64_t largest_batch,
                  const Shape& example, DType dtype)
      : DeviceIterator(std::move(inner), device, largest_batch, dtype),
        x_(Tensor::empty(batch_shape(largest_batch, example), DType::float32, device)),
        t_(Tensor::empty({largest_batch}, DType::int32, device)) {}

  Batch announce() override {
    const Batch read = inner().next();
    Batch batch({}, {read.ids().begin(), read.ids().end()}, read.epoch());
    batch.set_global_size(read.global_size());
    announce_ids(batch);
    x_.slice(0, batch.size()).copy_from(read["x"]);
    t_.slice(0, batch.size()).copy_from(read["t"]);
    return batch;
  }
  void fill(Batch& batch) override {
    begin_fill(batch);
    batch.set({.name = "x", .values = x_.slice(0, batch.size()).to(dtype_)});
    batch.set({.name = "t", .values = t_.slice(0, batch.size()), .is_target = true});
  }

 private:
  Tensor x_, t_;
};

}  // namespace

std::size_t resident_bytes(const Dataset& dataset) {
  // Images that are files are decoded once.
  return static_cast<std::size_t>(dataset.size()) *
         (dataset.header().value_bytes() + sizeof(std::int32_t));
}

bool lives_on_device(const Dataset& dataset, std::size_t free_bytes) {
  return (!dataset.is_transformed() || dataset.device_transform()) &&
         fits_on_device(resident_bytes(dataset), free_bytes);
}

std::unique_ptr<Iterator> create_resident_iterator(std::unique_ptr<ShareIterator> iterator,
                                                   Device device, DType dtype) {
  ShareIterator& share = *iterator;
  TASUKI_CHECK(!share.dataset().is_transformed() || share.dataset().device_transform(),
               "{} cannot do what a data set makes of its examples", device.text());
  return std::make_unique<ResidentIterator>(share, std::move(iterator), device, dtype);
}

std::unique_ptr<Iterator> create_copying_iterator(std::unique_ptr<ShareIterator> iterator,
                                                  Device device, DType dtype, int loader_threads) {
  const std::int64_t largest_batch = iterator->largest_batch();
  const Shape example = iterator->dataset().example_shape();
  auto ahead =
      std::make_unique<PrefetchIterator>(std::move(iterator), loader_threads, loader_threads + 3);
  return std::make_unique<CopyingIterator>(std::move(ahead), device, largest_batch, example, dtype);
}

std::unique_ptr<Iterator> create_device_iterator(std::unique_ptr<ShareIterator> iterator,
                                                 Device device, DType dtype, int loader_threads) {
  if (device.is_cpu()) return iterator;
  const Dataset& dataset = iterator->dataset();
  if (lives_on_device(dataset, backend(device).memory(device).free))
    return create_resident_iterator(std::move(iterator), device, dtype);
  log_verbose("{} examples of {:.1f} MB stay on the host; {} thread(s) read batches ahead for {}",
              dataset.size(), static_cast<double>(resident_bytes(dataset)) / 1e6, loader_threads,
              device.text());
  return create_copying_iterator(std::move(iterator), device, dtype, loader_threads);
}

}  // namespace tasuki
