#include "tensor/cuda_loading/loader.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "core/version.hpp"
#include "tensor/cuda_loading/entry.hpp"
#include "tensor/cuda_loading/opener.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

constexpr const char* advice = "compute on CPUs";
constexpr int success = 0, no_device = 100;  // CUresult

// The functions of libcuda.so.1 that are needed here. The library stays open, because the backend
// uses it next.
class DriverLibrary {
 public:
  DriverLibrary() : handle_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ != nullptr) return;
    const char* const why = ::dlerror();
    fail(ErrorKind::unavailable,
         "no NVIDIA driver was found on this machine: {}; install one, or {}",
         why != nullptr ? why : "libcuda.so.1 cannot be loaded", advice);
  }

  // 0 or a CUresult.
  template <class... Args>
  int call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(::dlsym(handle_, name));
    if (function == nullptr)
      fail(ErrorKind::unavailable, "libcuda.so.1 has no function {}: it is not NVIDIA's driver; {}",
           name, advice);
    return function(args...);
  }

  // "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)", or the number.
  std::string describe(int code) const {
    const char* text = nullptr;
    const char* name = nullptr;
    using Describe = int (*)(int, const char**);
    const auto text_of = reinterpret_cast<Describe>(::dlsym(handle_, "cuGetErrorString"));
    const auto name_of = reinterpret_cast<Describe>(::dlsym(handle_, "cuGetErrorName"));
    if (text_of != nullptr) text_of(code, &text);
    if (name_of != nullptr) name_of(code, &name);
    if (text == nullptr || name == nullptr) return fmt::format("error {}", code);
    return fmt::format("{} ({})", text, name);
  }

 private:
  void* handle_;
};

[[noreturn]] void fail_without_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr)
    fail(ErrorKind::unavailable,
         "the NVIDIA driver sees no GPU on this machine (compare nvidia-smi); {}", advice);
  if (*visible == '\0')
    fail(ErrorKind::unavailable,
         "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs; unset it or name some, or {}",
         advice);
  fail(ErrorKind::unavailable,
       "CUDA_VISIBLE_DEVICES={} leaves no GPU of this machine visible; unset it or name GPUs that "
       "nvidia-smi lists, or {}",
       visible, advice);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

struct CudaDriver {
  int version = 0;  // newest CUDA it supports: 1000 * major + 10 * minor
  int devices = 0;  // visible GPUs, at least 1
};

CudaDriver start_cuda_driver() {
  const DriverLibrary library;
  CudaDriver driver;
  // cuInit may fail because the driver is too old or there is no device; the version is known
  // without it.
  library.call("cuDriverGetVersion", &driver.version);
  int code = library.call("cuInit", 0U);
  if (code == success) code = library.call("cuDeviceGetCount", &driver.devices);
  if (code == no_device || (code == success && driver.devices == 0)) fail_without_devices();
  if (code != success)
    fail(ErrorKind::unavailable, "the NVIDIA driver (for CUDA {}) does not start: {}; {}",
         version_text(driver.version), library.describe(code), advice);
  return driver;
}

// dlopen; a dependency that the loader does not find is opened from cuda_library_folders(), with
// its dependencies found in the same way. Never closed.
OpenedLibrary open_cuda_library(const std::string& name) {
  return Opener().open(name);
}

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

struct LoadedBackend {
  int devices = 0;  // 0: not loaded
  const CudaEntry* entry = nullptr;
};

LoadedBackend load() {
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
  return {driver.devices, &entry};
}

LoadedBackend loaded_backend() {
  static std::mutex mutex;
  static LoadedBackend backend;
  const std::lock_guard lock(mutex);
  if (backend.devices == 0) backend = load();
  return backend;
}

}  // namespace

int load_cuda_backend() {
  return loaded_backend().devices;
}

std::vector<Gpu> visible_gpus() {
  return loaded_backend().entry->gpus();
}

bool open_runtime_compiler(int cuda_major) {
  const OpenedLibrary compiler = Opener().open_anywhere(fmt::format("libnvrtc.so.{}", cuda_major));
  link_map* place = nullptr;
  if (compiler.handle == nullptr || ::dlinfo(compiler.handle, RTLD_DI_LINKMAP, &place) != 0)
    return false;
  const std::string builtins = fmt::format("libnvrtc-builtins.so.{}.", cuda_major);
  std::error_code ignored;
  for (const fs::directory_entry& file :
       fs::directory_iterator(fs::path(place->l_name).parent_path(), ignored))
    if (file.path().filename().string().starts_with(builtins)) open_cuda_library(file.path());
  return true;
}

void check_cuda_driver_version(int driver_version, int toolkit_version) {
  if (driver_version / 1000 >= toolkit_version / 1000) return;
  fail(ErrorKind::unavailable,
       "the NVIDIA driver supports CUDA {} at most, but this CUDA backend was built with CUDA {}: "
       "update the driver, or build with CUDA {}, or {}",
       version_text(driver_version), version_text(toolkit_version), driver_version / 1000, advice);
}

std::string missing_library(const std::string& message) {
  const auto end = message.find(": cannot open shared object file");
  return end == std::string::npos ? "" : message.substr(0, end);
}

CudaSettings& cuda_settings() {
  static CudaSettings settings;
  return settings;
}

}  // namespace tasuki
