#include "tensor/cuda_loading/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "core/error.hpp"

namespace tasuki {
namespace {

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

}  // namespace

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

void check_cuda_driver_version(int driver_version, int toolkit_version) {
  if (driver_version / 1000 >= toolkit_version / 1000) return;
  fail(ErrorKind::unavailable,
       "the NVIDIA driver supports CUDA {} at most, but this CUDA backend was built with CUDA {}: "
       "update the driver, or build with CUDA {}, or {}",
       version_text(driver_version), version_text(toolkit_version), driver_version / 1000, advice);
}

}  // namespace tasuki
