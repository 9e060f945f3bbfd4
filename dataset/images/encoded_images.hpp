// Images held in memory as files, decoded whenever they are read.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tasuki/dataset/dataset.hpp"

namespace tasuki {

// One file as a record that travels between ranks: its name, for messages, and its contents.
std::vector<std::byte> pack_image_file(std::string_view name, std::string_view contents);

// Reading an image that is damaged is an error that names its file.
class EncodedImages final : public Dataset {
 public:
  // Room for header.count records; header.example_shape is 3 x side x side.
  explicit EncodedImages(const DatasetHeader& header);
  // Takes the record of example `i`; `id` is its number in the data set that it comes from.
  void set(std::int64_t i, std::int64_t id, std::span<const std::byte> record, std::int32_t label);

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override;
  std::int64_t id(std::int64_t i) const override { return example(i).id; }
  void read_stored(std::span<const std::int64_t> indices, std::byte* values,
                   std::int32_t* labels) const override;

 private:
  struct Example {
    std::vector<std::byte> record;
    std::int64_t id = 0;
    std::int32_t label = 0;
  };
  const Example& example(std::int64_t i) const;

  DatasetHeader header_;
  std::vector<Example> examples_;
};

// Decodes a record to 3 x side x side bytes.
void decode_image_record(std::span<const std::byte> record, std::int64_t side, std::byte* values);

}  // namespace tasuki
