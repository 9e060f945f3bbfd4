// DataSource: the examples of a data set one after the other, as stored. Files are read this way,
// so that a data set can be handed out to many ranks while no process ever holds the whole of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tasuki/dataset/dataset.hpp"

namespace tasuki {

// A run of neighbouring examples as stored.
struct RecordBlock {
  std::int64_t first = 0, count = 0;
  std::size_t value_bytes = 0;    // of each example
  std::vector<std::byte> values;  // of `count` examples
  std::vector<std::int32_t> labels;

  const std::byte* values_of(std::int64_t i) const {
    return values.data() + static_cast<std::size_t>(i) * value_bytes;
  }
  std::int32_t label_of(std::int64_t i) const { return labels[static_cast<std::size_t>(i)]; }
};

class DataSource {
 public:
  virtual ~DataSource() = default;
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;

  const DatasetHeader& header() const { return header_; }

  // Ends after the first `count` examples (all of them when there are fewer).
  void keep_first(std::int64_t count);
  // Gives examples another shape of the same number of values: 784 for 1 x 28 x 28. Another number
  // is an error of kind data: the files are not those of the program.
  void reshape(const Shape& example_shape);

  // Reads the next `count` examples, header().value_bytes() each, and their labels. Contents that
  // are not as expected are an error of kind data, with the file's path.
  void read(std::int64_t count, std::byte* values, std::int32_t* labels);
  // Reads on into `block`: about a mebibyte, at least one example. False when none is left.
  bool read_block(RecordBlock& block);

 protected:
  explicit DataSource(const DatasetHeader& header) : header_(header), available_(header.count) {}

 private:
  // The next `count` examples; never more than the header announced.
  virtual void read_next(std::int64_t count, std::byte* values, std::int32_t* labels) = 0;
  // Called once after the last example announced: checks that nothing follows it.
  virtual void check_end() {}

  DatasetHeader header_;
  std::int64_t available_;  // before keep_first
  std::int64_t position_ = 0;
};

// Opens a source; called on the one rank that has the data.
using OpenSource = std::function<std::unique_ptr<DataSource>()>;

// The examples of a data set in order. The data set must outlive the source.
std::unique_ptr<DataSource> source_of(const Dataset& dataset);

}  // namespace tasuki
