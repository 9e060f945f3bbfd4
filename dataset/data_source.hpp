// DataSource: a data set's examples, as stored, one after the other. Files are read this way, so
// that a data set is scattered over many ranks without any process holding all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dataset/dataset.hpp"

namespace tasuki {

struct ImageFile;

// A block of consecutive examples as stored.
struct RecordBlock {
  // One field of the examples, contiguous.
  struct Column {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> ends{0};  // ends of the examples in `bytes`, after a 0
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

  // Bytes of all examples as stored; all ranks together hold them. Variable fields are left out if
  // the source does not know their sizes before reading.
  virtual std::size_t stored_bytes() const {
    return static_cast<std::size_t>(header_.count) * header_.fixed_bytes();
  }

  // Ends after the first `count` examples (all of them if there are fewer).
  void keep_first(std::int64_t count);
  // The image files of the examples, in the order of the examples; none for other data.
  virtual std::span<const ImageFile> image_files() const;
  // Leaves out the examples with these ascending numbers; for sources with image_files().
  void leave_out(std::span<const std::int64_t> numbers);
  // Gives field "x" another shape with the same number of values: 784 for 1 x 28 x 28. A different
  // number of values is an error of kind data: the files do not fit the program.
  void reshape(const Shape& example_shape);

  // Looks for files that can never be read, without reading all of them: an error of kind data.
  // Done once, at the latest before the first example is read.
  void check();

  // Reads the next `count` examples into `block`. Unexpected contents are an error of kind data
  // with the file's path.
  void read(std::int64_t count, RecordBlock& block);
  // Reads the next examples into `block`: about a mebibyte, at least one example. False at the end.
  bool read_block(RecordBlock& block);

 protected:
  explicit DataSource(DatasetHeader header);

 private:
  virtual void remove_examples(std::span<const std::int64_t> numbers);
  // By default there is nothing to check.
  virtual void check_files() {}
  // Writes the next example, with a writer for each field in the header's order. Called at most as
  // often as the header announced.
  virtual void read_next(std::span<FieldWriter> example) = 0;
  // Called once after the last example announced: checks that nothing follows.
  virtual void check_end() {}

  // Reads examples into `block` as long as `goes_on` returns true.
  template <class GoesOn>
  void read_while(RecordBlock& block, const GoesOn& goes_on);

  DatasetHeader header_;
  std::int64_t available_;  // before keep_first
  std::int64_t position_ = 0;
  bool is_checked_ = false;
};

// Erases the elements with these ascending numbers.
template <class T>
void erase_numbered(std::vector<T>& values, std::span<const std::int64_t> numbers) {
  auto next = numbers.begin();
  std::int64_t i = 0;
  std::erase_if(values, [&](const T&) {
    const bool is_next = next != numbers.end() && *next == i;
    ++i;
    if (is_next) ++next;
    return is_next;
  });
}

// Opens a source; called on the one rank that has the data.
using OpenSource = std::function<std::unique_ptr<DataSource>()>;

// The examples of a data set in order, as stored. A data set that transforms its examples is a
// usage error. The data set must outlive the source.
std::unique_ptr<DataSource> source_of(const Dataset& dataset);

}  // namespace tasuki
