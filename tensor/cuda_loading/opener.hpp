// Opener: opens NVIDIA's libraries, also those that the loader's path lacks.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tasuki {

struct OpenedLibrary {
  void* handle = nullptr;  // nullptr: failed
  std::string missing;     // the library that was not found, which may be the requested one
  std::string message;     // dlerror()'s
};

// Libraries are never closed. load_cuda_backend() (loader.hpp) says in which folders they are
// found.
class Opener {
 public:
  // dlopen; a dependency that the loader does not find is opened from those folders, with its
  // dependencies found in the same way.
  OpenedLibrary open(const std::string& name);
  // The same for a library that need not be on the loader's path itself.
  OpenedLibrary open_anywhere(const std::string& name);

 private:
  std::optional<std::filesystem::path> find(const std::string& library);

  std::set<std::string> tried_;
  std::optional<std::vector<std::filesystem::path>> folders_;
};

}  // namespace tasuki
