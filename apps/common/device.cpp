#include "common/device.hpp"

#include <dlfcn.h>

#include "tasuki/core/error.hpp"

namespace tasuki::apps {
namespace {

bool has_nvidia_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

}  // namespace

Device select_device(const std::string& gpu, const Topology& topology) {
  if (gpu == "none") return Device::cpu();
  fail_everywhere(
      ErrorKind::unavailable,
      "--gpu: this version of Tasuki has no GPU backend yet, it computes on CPUs ({} has "
      "{} NVIDIA driver); leave --gpu out",
      topology.host_of.at(0), has_nvidia_driver() ? "an" : "no");
}

}  // namespace tasuki::apps
