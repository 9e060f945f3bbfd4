// A data set held in memory as stored: uint8 pixels take a quarter of the memory of floats, and
// image files no more than on disk.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dataset/data_source.hpp"

namespace tasuki {

class InMemoryDataset final : public Dataset {
 public:
  // Allocates memory for header.count examples, numbered from 0. Fields are zeros; variable fields
  // are empty.
  explicit InMemoryDataset(DatasetHeader header);

  // Writes example `i`, once: its fields as stored, in the header's order. `id` is its number in
  // the original data set.
  void set(std::int64_t i, std::int64_t id, std::span<const std::span<const std::byte>> fields);

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override;
  std::int64_t id(std::int64_t i) const override { return ids_[static_cast<std::size_t>(i)]; }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override;
  FieldArray array(std::size_t field) const override;

 private:
  // Memory in pieces that never move, so that growing copies nothing and wastes little.
  class Pieces {
   public:
    std::span<std::byte> take(std::size_t bytes);

   private:
    std::vector<std::unique_ptr<std::byte[]>> pieces_;
    std::byte* next_ = nullptr;
    std::size_t left_ = 0;
  };
  struct Column {
    std::vector<std::byte> values;                     // of examples of fixed length
    std::vector<std::span<const std::byte>> examples;  // of variable examples, in `pieces`
    Pieces pieces;
  };

  DatasetHeader header_;
  std::vector<Column> columns_;
  std::vector<std::int64_t> ids_;
};

// Reads all examples of a source that has not been read; image files are decoded.
std::shared_ptr<InMemoryDataset> read_dataset(DataSource& source);

// A data set for classification (classification_header) from the caller's values: count x (example
// shape) in order, one label each.
std::shared_ptr<InMemoryDataset> make_dataset(const Shape& example_shape, std::int64_t classes,
                                              std::span<const float> values,
                                              std::span<const std::int32_t> labels);

}  // namespace tasuki
