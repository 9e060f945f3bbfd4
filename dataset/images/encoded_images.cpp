#include "tasuki/dataset/images/encoded_images.hpp"

#include <algorithm>
#include <string>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/dataset/images/image.hpp"

namespace tasuki {

std::vector<std::byte> pack_image_file(std::string_view name, std::string_view contents) {
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  std::vector<std::byte> record;
  record.reserve(name.size() + 1 + contents.size());
  std::ranges::copy(bytes_of(name), std::back_inserter(record));
  record.push_back(std::byte{0});  // ends the name: no file's name holds it
  std::ranges::copy(bytes_of(contents), std::back_inserter(record));
  return record;
}

void decode_image_record(std::span<const std::byte> record, std::int64_t side, std::byte* values) {
  const auto end = std::ranges::find(record, std::byte{0});
  TASUKI_CHECK(end != record.end(), "an image's record of {} bytes has no name", record.size());
  const auto length = static_cast<std::size_t>(end - record.begin());
  const std::string name(reinterpret_cast<const char*>(record.data()), length);
  const Image image = decode_image(record.subspan(length + 1), name, side);
  resize_and_crop(image, side, reinterpret_cast<std::uint8_t*>(values));
}

EncodedImages::EncodedImages(const DatasetHeader& header)
    : header_(header), examples_(static_cast<std::size_t>(header.count)) {
  const Shape& shape = header.example_shape;
  TASUKI_CHECK(shape.rank() == 3 && shape[0] == 3 && shape[1] == shape[2],
               "images are 3 x side x side, not {}", shape.text());
}

const EncodedImages::Example& EncodedImages::example(std::int64_t i) const {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  return examples_[static_cast<std::size_t>(i)];
}

void EncodedImages::set(std::int64_t i, std::int64_t id, std::span<const std::byte> record,
                        std::int32_t label) {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  examples_[static_cast<std::size_t>(i)] = {{record.begin(), record.end()}, id, label};
}

std::size_t EncodedImages::stored_bytes() const {
  std::size_t bytes = examples_.size() * sizeof(Example);
  for (const Example& example : examples_) bytes += example.record.size();
  return bytes;
}

void EncodedImages::read_stored(std::span<const std::int64_t> indices, std::byte* values,
                                std::int32_t* labels) const {
  for (const std::int64_t i : indices) {
    decode_image_record(example(i).record, header_.example_shape[1], values);
    report_progress();
    *labels++ = example(i).label;
    values += header_.value_bytes();
  }
}

}  // namespace tasuki
