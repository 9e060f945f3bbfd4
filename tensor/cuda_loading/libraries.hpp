// Opens a shared library whose dependencies may be where the loader does not look.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tasuki {

// Folders that may hold NVIDIA's libraries: lib64 and lib of CUDA_HOME and CUDA_PATH, the toolkit's
// usual place (/usr/local/cuda/lib64), and site-packages/nvidia/*/lib (its wheels) and
// site-packages/torch/lib of the python3 in PATH.
std::vector<std::filesystem::path> cuda_library_folders();

// The missing library in a message of dlerror() ("libnccl.so.2: cannot open shared object file:
// ..."); empty if the message says something else.
std::string missing_library(const std::string& message);

struct OpenedLibrary {
  void* handle = nullptr;  // nullptr: failed
  std::string missing;     // the library that was not found, which may be the requested one
  std::string message;     // dlerror()'s
};

// dlopen; a dependency that the loader does not find is opened from cuda_library_folders(), with
// its dependencies found in the same way. Never closed.
OpenedLibrary open_cuda_library(const std::string& name);

// Opens NVRTC of CUDA `cuda_major` and its second library from the same folders; false if there is
// none. cuDNN compiles some of its kernels with it, and opens it by its name alone.
bool open_runtime_compiler(int cuda_major);

}  // namespace tasuki
