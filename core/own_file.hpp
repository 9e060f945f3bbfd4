// Files that Tasuki itself names in a folder.
//
// The folder may be someone else's, with a link, a pipe or a device where Tasuki expects its file.
// So a link in the last component of the path is never followed, only regular files are opened, and
// a file that is changed in place must have no other hard link; opening does not wait. For paths
// that users type, see named_file.hpp.
//
// Errors name the path and the cause. Their kind is missing if the file does not exist or may not
// be read, data if it is not a regular file or is too large, io if reading fails, and cannot_write
// if the file was to be written.
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

// The whole contents, at most `most` bytes. See also read_file_if_there and first_line_in
// (file.hpp).
std::string read_own_file(const std::filesystem::path& path, std::size_t most = own_file_limit);
// An error of kind cannot_write if something other than a regular file is there: for files that
// another program is about to write.
void check_own_file(const std::filesystem::path& path);

// Creates the folder in an existing one, unless it exists; an error of kind cannot_write if that
// fails, or if a link or a file of that name is in the way.
void make_own_folder(const std::filesystem::path& path);

// Writes all of it.
void write_to(const Descriptor& file, std::string_view contents, const std::filesystem::path& path);

}  // namespace tasuki
