// The working folder, which a program may change.
#pragma once

#include <filesystem>
#include <system_error>

namespace tasuki {

// Files that are opened later, or by threads, need it in their paths. Empty if the folder was
// removed.
inline std::filesystem::path present_folder() {
  std::error_code removed;
  return std::filesystem::current_path(removed);
}

}  // namespace tasuki
