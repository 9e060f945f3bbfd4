// DataSource: the examples of a data set one after the other, as stored. Files are read this way,
// so that a data set can be handed out to many ranks while no process ever holds the whole of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tasuki/dataset/dataset.hpp"

namespace tasuki {

// A run of neighbouring examples as they are handed out.
struct RecordBlock {
  std::int64_t first = 0;
  std::vector<std::byte> values;     // one record after the other
  std::vector<std::size_t> ends{0};  // of records in `values`, behind a 0
  std::vector<std::int32_t> labels;

  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  std::span<const std::byte> values_of(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return std::span(values).subspan(ends[at], ends[at + 1] - ends[at]);
  }
  std::int32_t label_of(std::int64_t i) const { return labels[static_cast<std::size_t>(i)]; }
  void add(std::span<const std::byte> record, std::int32_t label);
};

class DataSource {
 public:
  virtual ~DataSource() = default;
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;

  const DatasetHeader& header() const { return header_; }

  // Bytes of all examples as they are handed out, without labels: what the ranks hold together.
  virtual std::size_t stored_bytes() const {
    return static_cast<std::size_t>(header_.count) * header_.value_bytes();
  }

  // Ends after the first `count` examples (all of them when there are fewer).
  void keep_first(std::int64_t count);
  // Gives examples another shape of the same number of values: 784 for 1 x 28 x 28. Another number
  // is an error of kind data: the files are not those of the program.
  void reshape(const Shape& example_shape);

  // Looks for files that can never be read, without reading all of them: an error of kind data.
  // Does so once; the first example that is read does it where nobody has before.
  void check();

  // Reads the next `count` examples, header().value_bytes() each, and their labels. Contents that
  // are not as expected are an error of kind data, with the file's path.
  void read(std::int64_t count, std::byte* values, std::int32_t* labels);
  // Reads on into `block`: about a mebibyte, at least one example. False when none is left. Where
  // header().encoded, the block has files as they are, else header().value_bytes() an example.
  bool read_block(RecordBlock& block);

 protected:
  explicit DataSource(const DatasetHeader& header) : header_(header), available_(header.count) {}

 private:
  // By default there is nothing to look at.
  virtual void check_files() {}
  // The next `count` examples; never more than the header announced.
  virtual void read_next(std::int64_t count, std::byte* values, std::int32_t* labels) = 0;
  // Adds at most `most` examples (at least one) to an empty block, up to about `target_bytes`.
  virtual void read_next_block(RecordBlock& block, std::int64_t most, std::size_t target_bytes);
  // Called once after the last example announced: checks that nothing follows it.
  virtual void check_end() {}

  void note_read(std::int64_t count);

  DatasetHeader header_;
  std::int64_t available_;  // before keep_first
  std::int64_t position_ = 0;
  bool is_checked_ = false;
};

// Opens a source; called on the one rank that has the data.
using OpenSource = std::function<std::unique_ptr<DataSource>()>;

// The examples of a data set in order, as stored (images decoded). One that transforms its examples
// is a usage error. The data set must outlive the source.
std::unique_ptr<DataSource> source_of(const Dataset& dataset);

}  // namespace tasuki
