#include "dataset/iterators/device_iterator.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/transform.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

// The type of a field on a device: as stored if the device can decode it, else decoded.
DType resident_type(const Field& field) {
  const bool is_decoded_there =
      field.stored == DType::uint8 && field.decoded == DType::float32 && !field.is_ragged;
  return is_decoded_there ? field.stored : field.decoded;
}

// The longest example of a ragged field.
std::int64_t longest_of(const Dataset& dataset, std::size_t number) {
  StoredField stored(dataset, number);
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) bytes = std::max(bytes, stored[i].size());
  return static_cast<std::int64_t>(bytes / dataset.header().fields[number].stored_bytes());
}

// Some examples of a field in a device's form: image files decoded to pixels, ragged fields padded
// to `length`.
Tensor piece_of(const Dataset& dataset, std::size_t number, std::int64_t length,
                std::span<const std::int64_t> indices) {
  const Field& field = dataset.header().fields[number];
  const DType type = resident_type(field);
  if (type != field.stored && !field.is_ragged) return read_field(dataset, number, indices).values;
  const Shape shape = field.batch_shape(std::ssize(indices), length);
  if (!field.is_ragged) {
    Tensor piece = Tensor::empty(shape, type);
    StoredField stored(dataset, number);
    auto* to = static_cast<std::byte*>(piece.raw());
    for (const std::int64_t i : indices) {
      try {
        to = std::ranges::copy(stored.decoded(i), to).out;
      } catch (const Error& error) {
        rethrow_of_example(error, dataset.id(i));
      }
    }
    check_labels(dataset, number, indices, piece);
    return piece;
  }
  Tensor piece = Tensor::full(shape, field.padding, field.decoded);
  const Tensor read = read_field(dataset, number, indices).values;  // as long as its longest
  const std::size_t row = read.bytes() / indices.size(), step = piece.bytes() / indices.size();
  for (std::size_t i = 0; i < indices.size() && row > 0; ++i)
    std::memcpy(static_cast<std::byte*>(piece.raw()) + i * step,
                static_cast<const std::byte*>(read.raw()) + i * row, row);
  return piece;
}

// All examples.
Tensor on_device(const Dataset& dataset, std::size_t number, std::int64_t length, Device device) {
  const Field& field = dataset.header().fields[number];
  const DType type = resident_type(field);
  Tensor all = Tensor::empty(field.batch_shape(dataset.size(), length), type, device);
  constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
  const auto each =
      static_cast<std::int64_t>(all.bytes()) / std::max<std::int64_t>(1, dataset.size());
  const std::int64_t most =
      std::max<std::int64_t>(1, piece_bytes / std::max<std::int64_t>(1, each));
  for (std::int64_t begin = 0; begin < dataset.size(); begin += most) {
    const std::int64_t end = std::min(begin + most, dataset.size());
    std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
    std::iota(indices.begin(), indices.end(), begin);
    all.slice(begin, end).copy_from(piece_of(dataset, number, length, indices));
  }
  return all;
}

std::int64_t examples_in(const Tensor& rows) {
  return (rows.count() - 1) / 2;
}
Tensor positions_in(const Tensor& rows) {
  return rows.slice(1, 1 + examples_in(rows));
}

class ResidentField final : public FieldSource {
 public:
  ResidentField(Tensor all, DType decoded) : all_(std::move(all)), decoded_(decoded) {}
  Device device() const override { return all_.device(); }
  Shape shape(std::int64_t examples) const override { return all_.shape().with_items(examples); }
  Tensor make(const Tensor& rows, DType dtype) const override {
    const bool is_float = decoded_ == DType::float32;
    return backend(device()).gather(all_, positions_in(rows), is_float ? dtype : decoded_);
  }

 private:
  Tensor all_;
  DType decoded_;
};

class TransformedField final : public FieldSource {
 public:
  TransformedField(Tensor all, const SeededImageTransform& transform)
      : all_(std::move(all)), transform_(transform) {}
  Device device() const override { return all_.device(); }
  Shape shape(std::int64_t examples) const override { return all_.shape().with_items(examples); }
  Tensor make(const Tensor& rows, DType dtype) const override {
    const std::int64_t n = examples_in(rows);
    return backend(device()).transform_images(all_, positions_in(rows),
                                              rows.slice(1 + n, 1 + 2 * n), rows.slice(0, 1),
                                              transform_, dtype);
  }

 private:
  Tensor all_;
  SeededImageTransform transform_;
};

// Batches of one length of a ragged field.
class PaddedField final : public FieldSource {
 public:
  PaddedField(Tensor all, std::int64_t length, DType decoded)
      : all_(std::move(all)), length_(length), decoded_(decoded) {}
  Device device() const override { return all_.device(); }
  Shape shape(std::int64_t examples) const override {
    Shape shape = all_.shape().with_items(examples);
    shape[1] = length_;
    return shape;
  }
  Tensor make(const Tensor& rows, DType dtype) const override {
    const bool is_float = decoded_ == DType::float32;
    Backend& gathering = backend(device());
    const Tensor gathered = gathering.gather(all_, positions_in(rows), is_float ? dtype : decoded_);
    return gathering.take(gathered, 1, 0, length_);
  }

 private:
  Tensor all_;
  std::int64_t length_;
  DType decoded_;
};

// A data set on a device.
class ResidentExamples {
 public:
  ResidentExamples(const Dataset& dataset, Device device) : dataset_(dataset) {
    for (std::size_t number = 0; number < dataset.header().fields.size(); ++number)
      columns_.push_back(dataset.header().fields[number].is_ragged ? padded_column(number, device)
                                                                   : even_column(number, device));
    for (std::size_t number = 0; number < dataset.header().fields.size(); ++number)
      if (dataset.header().fields[number].ignored_label) count_targets_of(number);
  }

  // A batch of these examples, with sources instead of values.
  Batch batch(const BatchPlan& plan) {
    std::vector<BatchField> fields;
    for (std::size_t number = 0; number < columns_.size(); ++number)
      fields.push_back(field_of(number, plan.indices));
    std::vector<std::int64_t> ids;
    ids.reserve(plan.indices.size());
    for (const std::int64_t i : plan.indices) ids.push_back(dataset_.id(i));
    Batch batch(std::move(fields), std::move(ids), plan.epoch);
    batch.set_global_size(plan.global_size);
    batch.set_positions(plan.indices);
    if (counted_) {
      std::vector<std::int64_t> counted;
      counted.reserve(plan.indices.size());
      for (const std::int64_t i : plan.indices)
        counted.push_back((*counted_)[static_cast<std::size_t>(i)]);
      batch.set_counted(std::move(counted));
    }
    return batch;
  }

 private:
  struct Column {
    std::shared_ptr<const FieldSource> source;  // of a field with examples of fixed length
    // Of a ragged field: padded examples, their lengths, and a source for each length of a batch.
    Tensor padded = {};
    std::vector<std::int64_t> lengths = {};
    std::map<std::int64_t, std::shared_ptr<const FieldSource>> by_length = {};
  };

  Column even_column(std::size_t number, Device device) const {
    const Field& field = dataset_.header().fields[number];
    const Tensor all = on_device(dataset_, number, 0, device);
    if (const Transform* const transform = dataset_.transform(number))
      return {std::make_shared<TransformedField>(all, *transform->on_device)};
    return {std::make_shared<ResidentField>(all, field.decoded)};
  }
  Column padded_column(std::size_t number, Device device) const {
    const Field& field = dataset_.header().fields[number];
    Column column;
    StoredField stored(dataset_, number);
    for (std::int64_t i = 0; i < dataset_.size(); ++i)
      column.lengths.push_back(static_cast<std::int64_t>(stored[i].size() / field.stored_bytes()));
    const std::int64_t length = field.padded_length(longest_of(dataset_, number));
    column.padded = on_device(dataset_, number, length, device);
    return column;
  }
  void count_targets_of(std::size_t number) {
    counted_.emplace();
    counted_->reserve(static_cast<std::size_t>(dataset_.size()));
    for (std::int64_t i = 0; i < dataset_.size(); ++i) {
      const Tensor values = read_field(dataset_, number, {&i, 1}).values;
      counted_->push_back(count_targets(dataset_.header().fields[number], values).front());
    }
  }
  BatchField field_of(std::size_t number, std::span<const std::int64_t> indices) {
    const Field& field = dataset_.header().fields[number];
    Column& column = columns_[number];
    BatchField made{.name = field.name, .is_target = field.is_target, .source = column.source};
    if (!field.is_ragged) return made;
    made.lengths = Tensor::empty({std::ssize(indices)}, DType::int64);
    auto next = made.lengths.span<std::int64_t>().begin();
    std::int64_t longest = 0;
    for (const std::int64_t i : indices) {
      *next = column.lengths[static_cast<std::size_t>(i)];
      longest = std::max(longest, *next++);
    }
    const std::int64_t length = field.padded_length(longest);
    std::shared_ptr<const FieldSource>& source = column.by_length[length];
    if (!source) source = std::make_shared<PaddedField>(column.padded, length, field.decoded);
    made.source = source;
    return made;
  }

  const Dataset& dataset_;
  std::vector<Column> columns_;
  // For each example, the number of targets that count; empty: Field::ignored_label is not set.
  std::optional<std::vector<std::int64_t>> counted_;
};

class ResidentIterator final : public ForwardingIterator {
 public:
  // `share` is `inner`, typed.
  ResidentIterator(ShareIterator& share, std::unique_ptr<Iterator> inner, Device device)
      : ForwardingIterator(std::move(inner)), share_(share), examples_(share.dataset(), device) {}

  Batch next() override {
    Batch batch = examples_.batch(share_.plan_next());
    share_.advance();
    return batch;
  }

 private:
  ShareIterator& share_;
  ResidentExamples examples_;
};

}  // namespace

std::size_t resident_bytes(const Dataset& dataset) {
  std::size_t bytes = 0;
  for (std::size_t number = 0; number < dataset.header().fields.size(); ++number) {
    const Field& field = dataset.header().fields[number];
    const std::int64_t length =
        field.is_ragged ? field.padded_length(longest_of(dataset, number)) : 0;
    bytes += static_cast<std::size_t>(field.batch_shape(dataset.size(), length).count()) *
             size_of(resident_type(field));
  }
  return bytes;
}

bool lives_on_device(const Dataset& dataset, std::size_t free_bytes) {
  for (std::size_t field = 0; field < dataset.header().fields.size(); ++field)
    if (const Transform* const transform = dataset.transform(field);
        transform && !transform->on_device)
      return false;
  return fits_on_device(resident_bytes(dataset), free_bytes);
}

std::unique_ptr<Iterator> create_resident_iterator(std::unique_ptr<ShareIterator> iterator,
                                                   Device device) {
  ShareIterator& share = *iterator;
  TASUKI_CHECK(lives_on_device(share.dataset(), ~std::size_t{0}),
               "{} cannot apply the transform of a data set", device.text());
  return std::make_unique<ResidentIterator>(share, std::move(iterator), device);
}

std::unique_ptr<Iterator> create_device_iterator(std::unique_ptr<ShareIterator> iterator,
                                                 Device device, int loader_threads) {
  if (device.is_cpu()) return iterator;
  const Dataset& dataset = iterator->dataset();
  if (lives_on_device(dataset, backend(device).memory(device).free))
    return create_resident_iterator(std::move(iterator), device);
  log_verbose("{} examples of {:.1f} MB stay on the host; {} thread(s) read batches ahead for {}",
              dataset.size(), static_cast<double>(resident_bytes(dataset)) / 1e6, loader_threads,
              device.text());
  return std::make_unique<PrefetchIterator>(std::move(iterator), loader_threads,
                                            loader_threads + 3);
}

}  // namespace tasuki
