#include "tensor/cuda_loading/nvidia_libraries.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/cuda_loading/opener.hpp"

namespace tasuki {
namespace {

// How a library tells its version.
std::string version_from_pointer(void* function, std::size_t major_factor) {
  int number = 0;
  if (reinterpret_cast<int (*)(int*)>(function)(&number) != 0) return "";
  return nvidia_version_text(static_cast<std::size_t>(number), major_factor);
}
std::string version_as_result(void* function, std::size_t /*major_factor*/) {
  const std::size_t number = reinterpret_cast<std::size_t (*)()>(function)();
  // cuDNN's numbers had four digits before version 9.
  return nvidia_version_text(number, number < 10'000 ? 1000 : 10'000);
}

struct Known {
  const char* name;
  std::vector<std::string> files;  // newest first
  const char* function;
  std::string (*version)(void* function, std::size_t major_factor);
  std::size_t major_factor;
};

const std::vector<Known>& known_libraries() {
  static const std::vector<Known> known = {
      {"driver (CUDA)", {"libcuda.so.1"}, "cuDriverGetVersion", version_from_pointer, 1000},
      {"cuBLASLt",
       {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
       "cublasLtGetVersion",
       version_as_result,
       10'000},
      {"cuDNN", {"libcudnn.so.9", "libcudnn.so.8"}, "cudnnGetVersion", version_as_result, 10'000},
      {"NCCL", {"libnccl.so.2"}, "ncclGetVersion", version_from_pointer, 10'000}};
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
    if (function != nullptr) found.version = known.version(function, known.major_factor);
    found.problem = found.version.empty() ? fmt::format("{} does not tell its version", file) : "";
    return found;
  }
  if (found.problem.empty())
    found.problem = fmt::format("there is no {}", fmt::join(known.files, " or "));
  return found;
}

}  // namespace

std::string nvidia_version_text(std::size_t number, std::size_t major_factor) {
  // The driver's 12040 is 12.4: its last digit has no meaning.
  if (major_factor == 1000 && number >= 10'000)
    return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  return fmt::format("{}.{}.{}", number / major_factor, number % major_factor / 100, number % 100);
}

std::vector<NvidiaLibrary> find_nvidia_libraries() {
  Opener opener;
  std::vector<NvidiaLibrary> found;
  for (const Known& known : known_libraries()) found.push_back(look_for(known, opener));
  return found;
}

}  // namespace tasuki
