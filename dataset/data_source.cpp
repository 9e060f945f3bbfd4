#include "dataset/data_source.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "dataset/images/image_file.hpp"

namespace tasuki {
namespace {

class DatasetSource final : public DataSource {
 public:
  explicit DatasetSource(const Dataset& dataset)
      : DataSource(dataset.header()), dataset_(dataset) {}

 private:
  void read_next(std::span<FieldWriter> example) override {
    try {
      for (std::size_t field = 0; field < example.size(); ++field)
        dataset_.read(next_, field, example[field]);
    } catch (const Error& error) {
      rethrow_of_example(error, dataset_.id(next_));
    }
    ++next_;
  }

  const Dataset& dataset_;
  std::int64_t next_ = 0;
};

}  // namespace

std::size_t RecordBlock::bytes() const {
  std::size_t bytes = 0;
  for (const Column& column : columns) bytes += column.bytes.size();
  return bytes;
}

DataSource::DataSource(DatasetHeader header)
    : header_(std::move(header)), available_(header_.count) {
  header_.check();
}

std::span<const ImageFile> DataSource::image_files() const {
  return {};
}

void DataSource::keep_first(std::int64_t count) {
  TASUKI_CHECK(count >= 0 && position_ == 0,
               "keep_first({}) was called after {} examples were read", count, position_);
  header_.count = std::min(header_.count, count);
}

void DataSource::leave_out(std::span<const std::int64_t> numbers) {
  TASUKI_CHECK(position_ == 0, "examples are left out after {} were read", position_);
  remove_examples(numbers);
  header_.count -= std::ssize(numbers);
  available_ -= std::ssize(numbers);
}

void DataSource::remove_examples(std::span<const std::int64_t> numbers) {
  TASUKI_CHECK(numbers.empty(), "{} examples that are not files cannot be left out",
               numbers.size());
}

void DataSource::reshape(const Shape& example_shape) {
  Shape& shape = header_.field("x").shape;
  if (example_shape.count() != shape.count())
    fail(ErrorKind::data, "expected examples of {} values (shape {}), found examples of shape {}",
         example_shape.count(), example_shape.text(), shape.text());
  shape = example_shape;
}

void DataSource::check() {
  if (!is_checked_) check_files();
  is_checked_ = true;
}

template <class GoesOn>
void DataSource::read_while(RecordBlock& block, const GoesOn& goes_on) {
  block.first = position_;
  block.count = 0;
  block.columns.resize(header_.fields.size());
  for (RecordBlock::Column& column : block.columns) {
    column.bytes.clear();
    column.ends.assign(1, 0);
  }
  std::vector<FieldWriter> example;
  for (; goes_on(); ++block.count) {
    check();
    example.clear();
    for (std::size_t field = 0; field < header_.fields.size(); ++field)
      example.emplace_back(header_.fields[field], block.columns[field].bytes);
    read_next(example);
    for (RecordBlock::Column& column : block.columns) column.ends.push_back(column.bytes.size());
  }
  position_ += block.count;
  if (block.count > 0 && position_ == available_) check_end();
}

void DataSource::read(std::int64_t count, RecordBlock& block) {
  TASUKI_CHECK(count >= 0 && count <= header_.count - position_,
               "{} examples were requested, but only {} of {} are left", count,
               header_.count - position_, header_.count);
  read_while(block, [&] { return block.count < count; });
}

bool DataSource::read_block(RecordBlock& block) {
  constexpr std::size_t target_bytes = 1 << 20;
  const std::int64_t left = header_.count - position_;
  if (left == 0) return false;
  const std::size_t fixed = header_.fixed_bytes();
  std::int64_t most = left;
  if (fixed > 0) most = std::min(left, std::max<std::int64_t>(1, target_bytes / fixed));
  read_while(block, [&] {
    if (block.count >= most) return false;
    std::size_t variable = 0;
    for (std::size_t field = 0; field < block.columns.size(); ++field)
      if (header_.fields[field].is_variable()) variable += block.columns[field].bytes.size();
    return variable < target_bytes;
  });
  return true;
}

std::unique_ptr<DataSource> source_of(const Dataset& dataset) {
  if (dataset.is_transformed())
    fail(ErrorKind::usage,
         "a data set that transforms its examples cannot be scattered: scatter the original one "
         "and transform each rank's share (share.dataset = transformed(share.dataset, ...))");
  return std::make_unique<DatasetSource>(dataset);
}

}  // namespace tasuki
