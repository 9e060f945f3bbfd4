#include "core/own_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.hpp"

namespace tasuki {
namespace {

// AddressSanitizer, which the program may have, does not allow it.
int own_first() {
  return ::dlsym(RTLD_DEFAULT, "__asan_init") == nullptr ? RTLD_DEEPBIND : 0;
}

std::string path_of(const OwnLibrary& library) {
  if (const char* const chosen = std::getenv(library.variable); chosen && *chosen) return chosen;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&symbol_in), &info) == 0 || info.dli_fname == nullptr)
    return library.name;
  const auto beside = std::filesystem::path(info.dli_fname).parent_path() / library.name;
  std::error_code ignored;
  return std::filesystem::exists(beside, ignored) ? beside.string() : library.name;
}

}  // namespace

void* symbol_in(const OwnLibrary& library, const char* symbol) {
  const std::string path = path_of(library);
  void* const opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | own_first());
  if (opened == nullptr) {
    const char* const error = ::dlerror();
    const std::string why = error != nullptr ? error : "dlopen failed";
    // The library itself was not found, rather than one that it needs.
    if (path == library.name && why.starts_with(path + ":"))
      fail(ErrorKind::unavailable,
           "this Tasuki was built without {}: there is no {} beside its library or on the "
           "loader's path; {}",
           library.purpose, library.name, library.remedy);
    fail(ErrorKind::unavailable, "{} cannot be loaded: {}", library.purpose, why);
  }
  void* const found = ::dlsym(opened, symbol);
  if (found == nullptr)
    fail(ErrorKind::unavailable, "{} is not this build's library for {}: it has no {}", path,
         library.purpose, symbol);
  return found;
}

}  // namespace tasuki
