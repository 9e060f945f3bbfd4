#include "dataset/batch.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {
namespace {

std::int64_t items_of(const BatchField& field, std::int64_t examples) {
  const Shape shape = field.values ? field.values.shape() : field.source->shape(examples);
  return shape.rank() == 0 ? -1 : shape[0];
}

// A ragged field's values without the padding that these examples do not need. They are on the
// host.
Tensor without_padding(const BatchField& field) {
  const Shape& shape = field.values.shape();
  const auto lengths = field.lengths.span<std::int64_t>();
  const std::int64_t longest = lengths.empty() ? 0 : std::ranges::max(lengths);
  const std::int64_t padded = (longest + field.pad_to - 1) / field.pad_to * field.pad_to;
  if (padded >= shape[1]) return field.values;
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes[1] = padded;
  Tensor values = Tensor::empty(Shape(sizes), field.values.dtype());
  if (shape[0] == 0 || padded == 0) return values;
  const std::size_t from_bytes = field.values.bytes() / static_cast<std::size_t>(shape[0]);
  const std::size_t to_bytes = values.bytes() / static_cast<std::size_t>(shape[0]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i)
    std::memcpy(static_cast<std::byte*>(values.raw()) + i * to_bytes,
                static_cast<const std::byte*>(field.values.raw()) + i * from_bytes, to_bytes);
  return values;
}

}  // namespace

Batch::Batch(std::vector<BatchField> fields, std::vector<std::int64_t> ids, std::int64_t epoch)
    : fields_(std::move(fields)), ids_(std::move(ids)), epoch_(epoch) {
  for (const BatchField& field : fields_) check(field);
}

void Batch::check(const BatchField& field) const {
  TASUKI_CHECK(field.values.defined() != (field.source != nullptr),
               "field '{}' needs either values or a source of them", field.name);
  const std::int64_t items = items_of(field, size());
  TASUKI_CHECK(items == size(), "field '{}' has {} items along axis 0, its batch {} examples",
               field.name, items, size());
  TASUKI_CHECK(!field.lengths || field.lengths.shape() == Shape{size()},
               "field '{}' has lengths of shape {}, its batch {} examples", field.name,
               field.lengths.shape().text(), size());
}

std::span<const std::int64_t> Batch::ids() const {
  refuse_recording("the loss function reads the batch's ids on the host");
  return ids_;
}

std::int64_t Batch::epoch() const {
  refuse_recording("the loss function reads the batch's epoch on the host");
  return epoch_;
}

std::optional<std::int64_t> Batch::global_size() const {
  refuse_recording("the loss function reads the batch's global size on the host");
  return global_size_;
}

std::int64_t Batch::weight() const {
  if (!counted_) return size();
  refuse_recording("the number of targets that count differs between batches");
  return std::accumulate(counted_->begin(), counted_->end(), std::int64_t{0});
}

void Batch::set_counted(std::vector<std::int64_t> counted) {
  TASUKI_CHECK(counted.size() == ids_.size(),
               "numbers of targets were given for {} of {} "
               "examples",
               counted.size(), ids_.size());
  counted_ = std::move(counted);
}

const BatchField* Batch::find(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &BatchField::name);
  return found == fields_.end() ? nullptr : &*found;
}

const BatchField& Batch::field(std::string_view name) const {
  if (const BatchField* found = find(name)) return *found;
  std::vector<std::string> names;
  names.reserve(fields_.size());
  for (const BatchField& field : fields_) names.emplace_back(field.name);
  fail(ErrorKind::usage, "a batch has no field '{}'; its fields are: {}", name,
       names.empty() ? "none" : join(names, ", "));
}

const Tensor& Batch::operator[](std::string_view name) const {
  const BatchField& found = field(name);
  if (!found.values) {
    auto& made = fields_[static_cast<std::size_t>(&found - fields_.data())];
    made.values = made.source->make(rows_on(made.source->device()), DType::float32);
    made.source = nullptr;
  }
  return found.values;
}

const Tensor& Batch::lengths(std::string_view name) const {
  const BatchField& found = field(name);
  if (!found.lengths)
    fail(ErrorKind::usage, "field '{}' has no lengths, because it is not ragged", name);
  return found.lengths;
}

void Batch::set_positions(std::vector<std::int64_t> positions) {
  TASUKI_CHECK(positions.size() == ids_.size(), "{} positions for {} examples", positions.size(),
               ids_.size());
  positions_ = std::move(positions);
}

std::vector<std::int64_t> Batch::rows() const {
  refuse_recording("the loss function reads the batch's ids on the host");
  TASUKI_CHECK(positions_.size() == ids_.size(), "{} positions for {} examples", positions_.size(),
               ids_.size());
  std::vector<std::int64_t> rows{epoch_};
  rows.insert(rows.end(), positions_.begin(), positions_.end());
  rows.insert(rows.end(), ids_.begin(), ids_.end());
  return rows;
}

Tensor Batch::rows_on(Device device) const {
  const std::vector<std::int64_t> numbers = rows();
  return Tensor::from(std::span(numbers), {std::ssize(numbers)}).to(device);
}

void Batch::set(BatchField field) {
  check(field);
  const auto found = std::ranges::find(fields_, field.name, &BatchField::name);
  if (found == fields_.end())
    fields_.push_back(std::move(field));
  else
    *found = std::move(field);
}

Batch Batch::to(Device device, std::optional<DType> dtype, const Tensor& rows) const {
  Batch result = *this;
  Tensor sent = rows;
  for (BatchField& field : result.fields_) {
    if (const auto source = std::exchange(field.source, nullptr)) {
      if (!sent || sent.device() != source->device()) sent = rows_on(source->device());
      const DType type = field.is_target ? DType::float32 : dtype.value_or(DType::float32);
      field.values = source->make(sent, type);
    }
    field.values = field.values.to(device);
    if (dtype && !field.is_target && is_floating(field.values.dtype()))
      field.values = field.values.to(*dtype);
    if (field.lengths) field.lengths = field.lengths.to(device);
  }
  return result;
}

Batch Batch::slice(std::int64_t begin, std::int64_t end) const {
  TASUKI_CHECK(0 <= begin && begin <= end && end <= size(), "examples {} to {} of {}", begin, end,
               size());
  const auto part_of = [begin, end](const std::vector<std::int64_t>& numbers) {
    return std::vector<std::int64_t>(numbers.begin() + begin, numbers.begin() + end);
  };
  Batch result;
  result.epoch_ = epoch_;
  result.ids_ = part_of(ids_);
  if (!positions_.empty()) result.positions_ = part_of(positions_);
  if (counted_) result.counted_ = part_of(*counted_);
  result.fields_ = fields_;
  for (BatchField& field : result.fields_) {
    if (field.values) field.values = field.values.slice(begin, end);
    if (field.lengths) field.lengths = field.lengths.slice(begin, end);
  }
  return result;
}

void Batch::set_shards(std::vector<std::int64_t> examples) {
  const std::int64_t all = std::accumulate(examples.begin(), examples.end(), std::int64_t{0});
  TASUKI_CHECK(all == size(), "shards of {} examples in a batch of {}", all, size());
  shards_ = std::move(examples);
}

Batch Batch::shard(std::size_t i) const {
  TASUKI_CHECK(i < shards_.size(), "shard {} of {} in a batch", i, shards_.size());
  const auto first = shards_.begin() + static_cast<std::ptrdiff_t>(i);
  const std::int64_t begin = std::accumulate(shards_.begin(), first, std::int64_t{0});
  Batch part = slice(begin, begin + *first);
  for (BatchField& field : part.fields_)
    if (field.lengths && field.values) field.values = without_padding(field);
  return part;
}

}  // namespace tasuki
