#include "tensor/cuda_loading/loader.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/version.hpp"
#include "tensor/cuda_loading/driver.hpp"
#include "tensor/cuda_loading/entry.hpp"
#include "tensor/cuda_loading/libraries.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

constexpr const char* library_name = "libtasuki_cuda.so";

// The folder of libtasuki.so (or of the program, if that is linked into it).
fs::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&load_cuda_backend), &info) == 0 ||
      info.dli_fname == nullptr)
    return {};
  return fs::path(info.dli_fname).parent_path();
}

// The argument of dlopen.
std::string library_path() {
  if (const char* const chosen = std::getenv("TASUKI_CUDA_LIBRARY"); chosen && *chosen)
    return chosen;
  const fs::path beside = own_folder() / library_name;
  std::error_code ignored;
  return fs::exists(beside, ignored) ? beside.string() : library_name;
}

[[noreturn]] void fail_without_file(const std::string& path) {
  fail(ErrorKind::unavailable,
       "TASUKI_CUDA_LIBRARY names {}, which does not exist; unset it to use {}", path,
       library_name);
}

[[noreturn]] void fail_to_open(const std::string& path, const OpenedLibrary& opened) {
  if (opened.missing == path && path == library_name)
    fail(ErrorKind::unavailable,
         "this Tasuki was built without CUDA: there is no {} in {} or on the loader's path; "
         "configure it with -DTASUKI_CUDA=ON, or compute on CPUs",
         library_name, own_folder().string());
  if (opened.missing == path) fail_without_file(path);
  if (!opened.missing.empty())
    fail(ErrorKind::unavailable,
         "the CUDA backend needs {}, which is neither on the loader's path nor in CUDA_HOME nor in "
         "site-packages of python3 (nvidia/*/lib, torch/lib); install it, or add its folder to "
         "LD_LIBRARY_PATH",
         opened.missing);
  fail(ErrorKind::unavailable, "the CUDA backend cannot be loaded: {}", opened.message);
}

const CudaEntry& entry_of(const OpenedLibrary& opened, const std::string& path) {
  const auto* const entry = static_cast<const CudaEntry*>(::dlsym(opened.handle, cuda_entry_name));
  if (entry == nullptr) fail(ErrorKind::unavailable, "{} is not a CUDA backend of Tasuki", path);
  // version() is "0.1.0 (commit)".
  const std::string_view own = version();
  if (own.substr(0, own.find(' ')) != entry->version)
    fail(ErrorKind::unavailable,
         "{} belongs to Tasuki {}, but this is {}; install both from the same build", path,
         entry->version, own);
  return *entry;
}

int load() {
  const std::string path = library_path();
  const bool is_file = path.find('/') != std::string::npos;
  OpenedLibrary opened;
  // A missing backend is reported before anything about drivers; whether a mere name exists only
  // dlopen knows.
  std::error_code ignored;
  if (is_file && !fs::exists(path, ignored)) fail_without_file(path);
  if (!is_file) opened = open_cuda_library(path);
  if (!is_file && opened.handle == nullptr) fail_to_open(path, opened);
  const CudaDriver driver = start_cuda_driver();
  if (is_file) opened = open_cuda_library(path);
  if (opened.handle == nullptr) fail_to_open(path, opened);
  const CudaEntry& entry = entry_of(opened, path);
  check_cuda_driver_version(driver.version, entry.toolkit);
  entry.register_backend();
  return driver.devices;
}

}  // namespace

int load_cuda_backend() {
  static std::mutex mutex;
  static int devices = 0;  // 0: not loaded
  const std::lock_guard lock(mutex);
  if (devices == 0) devices = load();
  return devices;
}

CudaSettings& cuda_settings() {
  static CudaSettings settings;
  return settings;
}

}  // namespace tasuki
