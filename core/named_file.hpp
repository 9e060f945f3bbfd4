// Files that users name, on a command line or in settings. They may be links, or pipes if the
// contents are read or written once. For files that Tasuki names itself, see own_file.hpp.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"

namespace tasuki {

// The status of the path; not_found if nothing is there. If the system refuses to say, an error of
// kind missing or io (kind_of_absence) names the path and the cause.
std::filesystem::file_status status_of(const std::filesystem::path& path);

// The whole contents; an error of kind data if they exceed `most` bytes, other errors as above.
std::string read_up_to(const std::filesystem::path& path, std::size_t most);
// The contents of text that people write (settings, lists of hosts), of at most 16 MiB.
std::string read_text_file(const std::filesystem::path& path);
// Fills the beginning of `into` with what follows in an open file, and returns how many bytes; 0 at
// the end. `path` is for errors.
std::size_t read_part(const Descriptor& file, std::span<char> into,
                      const std::filesystem::path& path);
// The rest of an open file.
std::string read_to_end(const Descriptor& file, const std::filesystem::path& path,
                        std::size_t most);

// The target of links at the path, even if it does not exist.
std::filesystem::path end_of_links(std::filesystem::path path);
// Replaces the file (write_file), or the target of a link. Anything else that exists (a pipe,
// /dev/stdout) is written to directly.
void write_named_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace tasuki
