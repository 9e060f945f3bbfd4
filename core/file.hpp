// Atomic replacement of files: readers see the old or the new version, never a part.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.hpp"

namespace tasuki {

// The kind of an error in looking for a file or opening it: missing if it is not there or may not
// be read, which another try would not change; else io (too many open files, a disk that fails).
ErrorKind kind_of_absence(const std::error_code& error);

// The whole contents of a file of at most 1 GiB; an error, as above, names the file and the cause.
std::string read_file(const std::filesystem::path& path);
// The same of one that Tasuki names (own_file.hpp); nothing if it is not there.
std::optional<std::string> read_file_if_there(const std::filesystem::path& path);
// Of such a file with one short line; nothing if it is not there or empty.
std::optional<std::string> first_line_in(const std::filesystem::path& path);
// The names in a folder, in any order; none if it is not there. Other errors are as above.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Calls `write` with the name of a temporary file in the same folder, then syncs that file, renames
// it to `path` and syncs the folder. On any failure the temporary file is removed, `path` is
// unchanged, and an error of kind cannot_write names the cause. Several threads may do so at once,
// also for one file, which then has the contents of one of them.
void replace_file(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path& temporary)>& write);

// replace_file with these contents.
void write_file(const std::filesystem::path& path, std::string_view contents);

// Waits until a file, or a folder's entries, are on disk; an error of kind cannot_write names the
// cause.
void sync_file(const std::filesystem::path& file);
void sync_folder(const std::filesystem::path& folder);

// Temporary files in `folder` that processes of this host have left, which are over
// (temporary_name.hpp).
std::vector<std::filesystem::path> leftovers_in(const std::filesystem::path& folder);
// Removes them.
void remove_leftovers(const std::filesystem::path& folder);

// Makes the folder (and those above, on disk) and checks that files can be written in it; an error
// of kind cannot_write names the cause.
void make_output_folder(const std::filesystem::path& folder);

// Whether make_output_folder would succeed; the same errors. Leaves no new folder behind.
void check_output_folder(const std::filesystem::path& folder);

}  // namespace tasuki
