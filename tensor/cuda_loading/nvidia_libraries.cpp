#include "tensor/cuda_loading/nvidia_libraries.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/cuda_loading/opener.hpp"

namespace tasuki {
namespace {

// How a library tells its version: the driver's 12040 is CUDA 12.4, the others' 90100 is 9.1.0.
std::string version_of_driver(void* function) {
  int number = 0;
  if (reinterpret_cast<int (*)(int*)>(function)(&number) != 0) return "";
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}
std::string with_three_parts(std::size_t number) {
  return fmt::format("{}.{}.{}", number / 10'000, number % 10'000 / 100, number % 100);
}
std::string version_from_pointer(void* function) {
  int number = 0;
  if (reinterpret_cast<int (*)(int*)>(function)(&number) != 0) return "";
  return with_three_parts(static_cast<std::size_t>(number));
}
std::string version_as_result(void* function) {
  return with_three_parts(reinterpret_cast<std::size_t (*)()>(function)());
}

struct Known {
  const char* name;
  std::vector<std::string> files;  // newest first
  const char* function;
  std::string (*version)(void* function);
};

const std::vector<Known>& known_libraries() {
  static const std::vector<Known> known = {
      {"driver (CUDA)", {"libcuda.so.1"}, "cuDriverGetVersion", version_of_driver},
      {"cuBLASLt",
       {"libcublasLt.so.13", "libcublasLt.so.12"},
       "cublasLtGetVersion",
       version_as_result},
      {"cuDNN", {"libcudnn.so.9"}, "cudnnGetVersion", version_as_result},
      {"NCCL", {"libnccl.so.2"}, "ncclGetVersion", version_from_pointer}};
  return known;
}

NvidiaLibrary look_for(const Known& known, Opener& opener) {
  NvidiaLibrary found{known.name, "", ""};
  for (const std::string& file : known.files) {
    const OpenedLibrary opened = opener.open_anywhere(file);
    if (opened.handle == nullptr) {
      // That a file is there and cannot be loaded says more than that others are not there.
      if (opened.missing != file) found.problem = opened.message;
      continue;
    }
    void* const function = ::dlsym(opened.handle, known.function);
    if (function != nullptr) found.version = known.version(function);
    found.problem = found.version.empty() ? fmt::format("{} does not tell its version", file) : "";
    return found;
  }
  if (found.problem.empty())
    found.problem = fmt::format("there is no {}", fmt::join(known.files, " or "));
  return found;
}

}  // namespace

std::vector<NvidiaLibrary> find_nvidia_libraries() {
  Opener opener;
  std::vector<NvidiaLibrary> found;
  for (const Known& known : known_libraries()) found.push_back(look_for(known, opener));
  return found;
}

}  // namespace tasuki
