#include "core/own_library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "core/error.hpp"

namespace tasuki {

std::string own_library_path(const std::string& name) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_library_path), &info) == 0 ||
      info.dli_fname == nullptr)
    return name;
  const std::filesystem::path beside = std::filesystem::path(info.dli_fname).parent_path() / name;
  std::error_code ignored;
  return std::filesystem::exists(beside, ignored) ? beside.string() : name;
}

void* own_library_function(const std::string& name, const char* function, const char* remedy) {
  void* const library = ::dlopen(own_library_path(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(ErrorKind::unavailable, "{} cannot be loaded: {}; {}", name, ::dlerror(), remedy);
  void* const found = ::dlsym(library, function);
  if (found == nullptr)
    fail(ErrorKind::unavailable, "{} is of another build: it has no {}; {}", name, function,
         remedy);
  return found;
}

}  // namespace tasuki
