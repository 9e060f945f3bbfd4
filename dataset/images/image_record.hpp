// An image file as a record that travels between ranks: its name (for messages) and its contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dataset/field.hpp"

namespace tasuki {

void write_image_record(std::string_view name, std::string_view contents, FieldWriter& into);

struct ImageRecord {
  std::string name;
  std::span<const std::byte> file;  // in the record
};
ImageRecord read_image_record(std::span<const std::byte> record);

// Decodes a record to the pixels of the field. A damaged image is an error that names its file.
void decode_image_record(std::span<const std::byte> record, const Field& field, std::byte* pixels);

// Logs that a file lacks its end but no pixels (Image::lacks_end), only for the first few files of
// this process, because files are read again in every epoch.
void warn_of_missing_end(const std::string& name);

}  // namespace tasuki
