// What connects libtasuki.so to libtasuki_hdf5.so (hdf5/).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "array_files/file_array.hpp"

namespace tasuki {

struct Hdf5Entry {
  const char* version;  // of Tasuki, to be the same
  // Opens data sets of a file, by their paths in it.
  std::vector<FileArray> (*open)(const std::filesystem::path& path,
                                 const std::vector<std::string>& names);
};

// A variable with C linkage of type Hdf5Entry.
inline constexpr const char* hdf5_entry_name = "tasuki_hdf5_entry";

}  // namespace tasuki
