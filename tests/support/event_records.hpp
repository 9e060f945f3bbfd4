// What an event file has, read by a decoder of the test's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tasuki::testing {

// The messages of a file, without their lengths; adds a failure if a length, or a checksum's place,
// does not fit the file. Checksums themselves are not computed.
std::vector<std::string> records_in(const std::filesystem::path& file);

// A message's fields by their numbers, in order: numbers of any width as 64 bits, others as bytes.
struct EventField {
  int number = 0;
  std::uint64_t value = 0;
  std::string bytes;
};
std::vector<EventField> fields_of(const std::string& message);

// The scalars of all event files in a folder: steps and values by tag, in the order of the files.
// Steps from that of a session's start on are dropped, as TensorBoard does.
using Scalars = std::map<std::string, std::vector<std::pair<std::int64_t, float>>>;
Scalars scalars_in(const std::filesystem::path& folder);

// Tags of all summaries, and how many there are of each.
std::map<std::string, int> tags_in(const std::filesystem::path& folder);

}  // namespace tasuki::testing
