// Atomic replacement of files: readers see the old or the new version, never a part.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

// The whole contents of a file; an error names the file and the cause.
std::string read_file(const std::filesystem::path& path);

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

// Temporary files that processes killed in replace_file have left in `folder`; files that other
// processes are writing there look the same.
std::vector<std::filesystem::path> leftovers_in(const std::filesystem::path& folder);
// Removes them. No process may be writing into the folder.
void remove_leftovers(const std::filesystem::path& folder);

// Makes the folder (and those above) and checks that files can be written in it; an error of kind
// cannot_write names the cause.
void make_output_folder(const std::filesystem::path& folder);

// Whether make_output_folder would succeed; the same errors. Leaves no new folder behind.
void check_output_folder(const std::filesystem::path& folder);

}  // namespace tasuki
