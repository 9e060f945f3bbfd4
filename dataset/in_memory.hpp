// A data set held in memory as stored: uint8 pixels take a quarter of what floats would.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tasuki/dataset/source.hpp"

namespace tasuki {

class InMemoryDataset final : public Dataset {
 public:
  // Room for header.count examples, all zero, numbered from 0.
  explicit InMemoryDataset(const DatasetHeader& header);

  // Writes example `i`; `id` is its number in the data set that it comes from.
  void set(std::int64_t i, std::int64_t id, const std::byte* values, std::int32_t label);

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override;
  std::int64_t id(std::int64_t i) const override { return ids_[static_cast<std::size_t>(i)]; }
  void read_stored(std::span<const std::int64_t> indices, std::byte* values,
                   std::int32_t* labels) const override;
  StoredExample in_place(std::int64_t i) const override {
    return {values_of(i), labels_[static_cast<std::size_t>(i)]};
  }

 private:
  friend std::shared_ptr<InMemoryDataset> read_dataset(DataSource& source);
  const std::byte* values_of(std::int64_t i) const;

  DatasetHeader header_;
  std::vector<std::byte> values_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> ids_;
};

// All examples of a source that was not read from yet; images are decoded.
std::shared_ptr<InMemoryDataset> read_dataset(DataSource& source);

// A data set of the caller's own values: count x (example shape) in order, one label each.
std::shared_ptr<InMemoryDataset> make_dataset(const Shape& example_shape, std::int64_t classes,
                                              std::span<const float> values,
                                              std::span<const std::int32_t> labels);

}  // namespace tasuki
