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
  // One field of them, one example after the other.
  struct Column {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> ends{0};  // of examples in `bytes`, behind a 0
  };
  std::int64_t first = 0, count = 0;
  std::vector<Column> columns;

  std::span<const std::byte> at(std::size_t field, std::int64_t i) const {
    const Column& column = columns[field];
    const auto from = column.ends.begin() + i;
    return std::span(column.bytes).subspan(from[0], from[1] - from[0]);
  }
  std::size_t bytes() const;
};

class DataSource {
 public:
  virtual ~DataSource() = default;
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;

  const DatasetHeader& header() const { return header_; }

  // Bytes of all examples as they are handed out: what the ranks hold together. Without variable
  // fields where a source does not know before it reads.
  virtual std::size_t stored_bytes() const {
    return static_cast<std::size_t>(header_.count) * header_.fixed_bytes();
  }

  // Ends after the first `count` examples (all of them when there are fewer).
  void keep_first(std::int64_t count);
  // Gives field "x" another shape of the same number of values: 784 for 1 x 28 x 28. Another number
  // is an error of kind data: the files are not those of the program.
  void reshape(const Shape& example_shape);

  // Looks for files that can never be read, without reading all of them: an error of kind data.
  // Does so once; the first example that is read does it where nobody has before.
  void check();

  // Reads the next `count` examples into `block`. Contents that are not as expected are an error of
  // kind data, with the file's path.
  void read(std::int64_t count, RecordBlock& block);
  // Reads on into `block`: about a mebibyte, at least one example. False when none is left.
  bool read_block(RecordBlock& block);

 protected:
  explicit DataSource(DatasetHeader header);

 private:
  // By default there is nothing to look at.
  virtual void check_files() {}
  // Writes the next example: a writer for each field, in the header's order. Not called more often
  // than the header announced.
  virtual void read_next(std::span<FieldWriter> example) = 0;
  // Called once after the last example announced: checks that nothing follows it.
  virtual void check_end() {}

  // Reads examples into `block` while `goes_on` of it.
  template <class GoesOn>
  void read_while(RecordBlock& block, const GoesOn& goes_on);

  DatasetHeader header_;
  std::int64_t available_;  // before keep_first
  std::int64_t position_ = 0;
  bool is_checked_ = false;
};

// Opens a source; called on the one rank that has the data.
using OpenSource = std::function<std::unique_ptr<DataSource>()>;

// The examples of a data set in order, as stored. One that transforms its examples is a usage
// error. The data set must outlive the source.
std::unique_ptr<DataSource> source_of(const Dataset& dataset);

}  // namespace tasuki
