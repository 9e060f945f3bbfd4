// Files that Tasuki itself names in a folder.
//
// The folder may come from somebody else, with a link, a pipe or a device where Tasuki expects its
// file. So the last component of the path is never followed as a link, and what is opened is a
// regular file, and one that is changed in place has no other name; opening it does not wait. For
// paths that users type: named_file.hpp.
//
// Errors of kind missing: it is not there, or may not be read; of kind data: it is no regular file,
// or is too large; of kind io: it cannot be read. Where it is to be written, they are of kind
// cannot_write. All name the path and the cause.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"

namespace tasuki {

enum class OwnFile {
  read,
  append,  // at its end; made if it is missing
  update,  // for reading and writing; made if it is missing
  renew,   // emptied; made if it is missing
  make     // an error if it is there
};
Descriptor open_own_file(const std::filesystem::path& path, OwnFile how);

// Bytes of a file; a log grows with its run.
inline constexpr std::size_t own_file_limit = std::size_t{16} << 20,
                             own_log_limit = std::size_t{1} << 30;

// All of it, at most this many bytes. See read_file_if_there and first_line_in (file.hpp), too.
std::string read_own_file(const std::filesystem::path& path, std::size_t most = own_file_limit);
// An error of kind cannot_write if something other than a regular file is there: for files that
// another program is about to write.
void check_own_file(const std::filesystem::path& path);

// Makes the folder in one that is there, unless it is there already; an error of kind cannot_write
// if it cannot be made, or if a link or a file of that name is in the way.
void make_own_folder(const std::filesystem::path& path);

// Writes all of it.
void write_to(const Descriptor& file, std::string_view contents, const std::filesystem::path& path);

}  // namespace tasuki
