#include "event_records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/file.hpp"

namespace tasuki::testing {
namespace {

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::uint64_t take_varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0; at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names_in(folder)) files.push_back(folder / name);
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> records_in(const std::filesystem::path& file) {
  constexpr std::size_t head = 12, tail = 4;
  const std::string bytes = read_file(file);
  std::vector<std::string> records;
  for (std::size_t at = 0; at < bytes.size();) {
    const bool has_head = bytes.size() - at >= head + tail;
    const auto length = has_head ? number_at<std::uint64_t>(bytes, at) : 0;
    if (!has_head || length > bytes.size() - at - head - tail) {
      ADD_FAILURE() << file << ": no record at byte " << at << " of " << bytes.size();
      break;
    }
    records.push_back(bytes.substr(at + head, length));
    at += head + length + tail;
  }
  return records;
}

std::vector<EventField> fields_of(const std::string& message) {
  std::vector<EventField> fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = take_varint(message, at);
    EventField field;
    field.number = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        field.value = take_varint(message, at);
        break;
      case 1:
        field.value = number_at<std::uint64_t>(message, at);
        at += 8;
        break;
      case 2: {
        const std::uint64_t length = take_varint(message, at);
        field.bytes = message.substr(at, length);
        at += length;
        break;
      }
      case 5:
        field.value = number_at<std::uint32_t>(message, at);
        at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

Scalars scalars_in(const std::filesystem::path& folder) {
  Scalars scalars;
  for (const auto& file : files_in(folder))
    for (const std::string& record : records_in(file)) {
      std::int64_t step = 0;
      for (const EventField& field : fields_of(record)) {
        if (field.number == 2) step = static_cast<std::int64_t>(field.value);
        if (field.number == 7)
          for (auto& [tag, points] : scalars)
            std::erase_if(points, [&](const auto& point) { return point.first >= step; });
        if (field.number != 5) continue;
        for (const EventField& value : fields_of(field.bytes)) {
          std::string tag;
          for (const EventField& part : fields_of(value.bytes)) {
            if (part.number == 1) tag = part.bytes;
            if (part.number == 2)
              scalars[tag].emplace_back(
                  step, std::bit_cast<float>(static_cast<std::uint32_t>(part.value)));
          }
        }
      }
    }
  return scalars;
}

std::map<std::string, int> tags_in(const std::filesystem::path& folder) {
  std::map<std::string, int> tags;
  for (const auto& file : files_in(folder))
    for (const std::string& record : records_in(file))
      for (const EventField& field : fields_of(record))
        if (field.number == 5)
          for (const EventField& value : fields_of(field.bytes))
            for (const EventField& part : fields_of(value.bytes))
              if (part.number == 1) ++tags[part.bytes];
  return tags;
}

}  // namespace tasuki::testing
