// Files that are either the old or the new version, never half of one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

// Whole contents of a file; an error says which file and why.
std::string read_file(const std::filesystem::path& path);

// Calls `write` with the name of a temporary file in the same folder, then syncs that file, renames
// it to `path` and syncs the folder. When anything fails the temporary is removed, `path` is as it
// was, and an error of kind cannot_write says why.
void replace_file(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path& temporary)>& write);

// replace_file with these contents.
void write_file(const std::filesystem::path& path, std::string_view contents);

// What processes that were ended in replace_file have left in `folder`; what others are writing
// there looks the same.
std::vector<std::filesystem::path> leftovers_in(const std::filesystem::path& folder);
// Removes that. No process may be writing into the folder.
void remove_leftovers(const std::filesystem::path& folder);

// Makes the folder (and those above) and checks that files can be written in it; an error of kind
// cannot_write says what stands in the way.
void make_output_folder(const std::filesystem::path& folder);

// Whether make_output_folder could; the same errors. Leaves no folder behind that was not there.
void check_output_folder(const std::filesystem::path& folder);

}  // namespace tasuki
