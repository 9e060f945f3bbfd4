#include "tasuki/dataset/source.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tasuki {
namespace {

class DatasetSource final : public DataSource {
 public:
  explicit DatasetSource(const Dataset& dataset)
      : DataSource(as_decoded(dataset.header())), dataset_(dataset) {}

 private:
  static DatasetHeader as_decoded(DatasetHeader header) {
    header.encoded = false;
    return header;
  }
  void read_next(std::int64_t count, std::byte* values, std::int32_t* labels) override {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), next_);
    dataset_.read_stored(indices, values, labels);
    next_ += count;
  }

  const Dataset& dataset_;
  std::int64_t next_ = 0;
};

}  // namespace

void DataSource::keep_first(std::int64_t count) {
  TASUKI_CHECK(count >= 0 && position_ == 0, "the first {} examples were asked for after {} reads",
               count, position_);
  header_.count = std::min(header_.count, count);
}

void DataSource::reshape(const Shape& example_shape) {
  if (example_shape.count() != header_.example_shape.count())
    fail(ErrorKind::data, "expected examples of {} values (shape {}), found examples of shape {}",
         example_shape.count(), example_shape.text(), header_.example_shape.text());
  header_.example_shape = example_shape;
}

void DataSource::check() {
  if (!is_checked_) check_files();
  is_checked_ = true;
}

void DataSource::read(std::int64_t count, std::byte* values, std::int32_t* labels) {
  TASUKI_CHECK(count >= 0 && count <= header_.count - position_,
               "{} examples asked for where {} of {} are left", count, header_.count - position_,
               header_.count);
  if (count == 0) return;
  check();
  read_next(count, values, labels);
  note_read(count);
}

void DataSource::note_read(std::int64_t count) {
  position_ += count;
  if (position_ == available_) check_end();
}

bool DataSource::read_block(RecordBlock& block) {
  constexpr std::size_t target_bytes = 1 << 20;
  const std::int64_t left = header_.count - position_;
  if (left == 0) return false;
  check();
  block.values.clear();
  block.ends.assign(1, 0);
  block.labels.clear();
  block.first = position_;
  read_next_block(block, left, target_bytes);
  note_read(block.count());
  return true;
}

void DataSource::read_next_block(RecordBlock& block, std::int64_t most, std::size_t target_bytes) {
  const std::size_t bytes = header_.value_bytes();
  const std::size_t count =
      std::min(static_cast<std::size_t>(most),
               std::max<std::size_t>(1, target_bytes / (bytes + sizeof(std::int32_t))));
  block.values.resize(count * bytes);
  block.labels.resize(count);
  for (std::size_t i = 1; i <= count; ++i) block.ends.push_back(i * bytes);
  read_next(static_cast<std::int64_t>(count), block.values.data(), block.labels.data());
}

void RecordBlock::add(std::span<const std::byte> record, std::int32_t label) {
  values.insert(values.end(), record.begin(), record.end());
  ends.push_back(values.size());
  labels.push_back(label);
}

std::unique_ptr<DataSource> source_of(const Dataset& dataset) {
  if (dataset.is_transformed())
    fail(ErrorKind::usage,
         "examples are handed out as they are stored, and this data set transforms them: hand out "
         "the one below it, and transform what each rank gets (share.dataset = "
         "transformed(share.dataset, ...))");
  return std::make_unique<DatasetSource>(dataset);
}

}  // namespace tasuki
