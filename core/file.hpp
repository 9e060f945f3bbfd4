// Atomic replacement of files: readers see the old or the new version, never a part.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.hpp"

namespace tasuki {

// The kind of an error in finding or opening a file: missing if it does not exist or may not be
// read, which another try would not change; otherwise io (too many open files, a failing disk).
ErrorKind kind_of_absence(const std::error_code& error);

// The whole contents of a file of at most 1 GiB; an error, as above, names the file and the cause.
std::string read_file(const std::filesystem::path& path);
// read_file() for a file that Tasuki names (own_file.hpp); nothing if it does not exist.
std::optional<std::string> read_file_if_there(const std::filesystem::path& path);
// The line of such a file with one short line; nothing if it does not exist or is empty.
std::optional<std::string> first_line_in(const std::filesystem::path& path);
// The names in a folder, in any order; none if it does not exist. Other errors are as above.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// The working folder. A program may change it, so files that are opened later, or by threads, need
// it in their paths. Empty if the folder was removed.
std::filesystem::path present_folder();

// Calls `write` with the name of a temporary file in the same folder, then syncs that file, renames
// it to `path` and syncs the folder. On any failure the temporary file is removed, `path` is
// unchanged, and an error of kind cannot_write names the cause. Several threads may call it at
// once, also for one file, which then has one thread's contents.
void replace_file(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path& temporary)>& write);

// Calls replace_file with these contents.
void write_file(const std::filesystem::path& path, std::string_view contents);

// The same for files that belong together: all are on disk under temporary names before the first
// gets its own. So if one cannot be written, none is changed.
struct FileContents {
  std::filesystem::path path;
  std::string contents;
};
void write_files(std::span<const FileContents> files);

// Waits until a file, or a folder's entries, are on disk; an error of kind cannot_write names the
// cause.
void sync_file(const std::filesystem::path& file);
void sync_folder(const std::filesystem::path& folder);

// Temporary files in `folder` left by processes of this host that have ended (temporary_name.hpp).
std::vector<std::filesystem::path> leftovers_in(const std::filesystem::path& folder);
// Removes them.
void remove_leftovers(const std::filesystem::path& folder);

// Creates the folder (and its parents, synced to disk) and checks that files can be written in it;
// an error of kind cannot_write names the cause.
void make_output_folder(const std::filesystem::path& folder);

// Whether make_output_folder would succeed; the same errors. Leaves no new folder behind.
void check_output_folder(const std::filesystem::path& folder);

}  // namespace tasuki
