#include "training/gpu_sensors.hpp"

#include <dlfcn.h>

#include <array>

#include "core/error.hpp"

namespace tasuki {
namespace {

// The part of NVML's interface that is used, from its reference manual (no header is needed to
// build).
using NvmlDevice = void*;
constexpr int nvml_success = 0;
constexpr unsigned multiprocessor_clock = 1, gpu_temperature = 0;

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using LibraryHandle = std::unique_ptr<void, CloseLibrary>;

template <class Function>
Function* find(const LibraryHandle& library, const char* name) {
  auto* const found = reinterpret_cast<Function*>(::dlsym(library.get(), name));
  if (found == nullptr)
    fail(ErrorKind::unavailable, "libnvidia-ml.so.1: expected NVIDIA's NVML, found no function {}",
         name);
  return found;
}

LibraryHandle open_nvml() {
  LibraryHandle library(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    const char* const why = ::dlerror();
    fail(ErrorKind::unavailable, "GPUs cannot be monitored without NVML: {}",
         why != nullptr ? why : "libnvidia-ml.so.1 cannot be loaded");
  }
  return library;
}

// "0000:65:00.0" of the GPU that CUDA calls `index`; empty if CUDA's driver does not tell.
std::string bus_of(int index) {
  const LibraryHandle driver(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  if (driver == nullptr) return "";
  const auto get = reinterpret_cast<int (*)(int*, int)>(::dlsym(driver.get(), "cuDeviceGet"));
  const auto bus_id =
      reinterpret_cast<int (*)(char*, int, int)>(::dlsym(driver.get(), "cuDeviceGetPCIBusId"));
  std::array<char, 32> text{};
  int device = 0;
  if (get == nullptr || bus_id == nullptr || get(&device, index) != 0 ||
      bus_id(text.data(), static_cast<int>(text.size()), device) != 0)
    return "";
  return text.data();
}

}  // namespace

struct GpuSensors::Library {
  // Not in the unnamed namespace: GCC 14 crashes on pointers to functions that take its types,
  // where sources are compiled in groups.
  struct NvmlUtilization {
    unsigned gpu = 0, memory = 0;  // percent
  };
  struct NvmlMemory {
    unsigned long long total = 0, free = 0, used = 0;  // bytes
  };

  LibraryHandle handle = open_nvml();
  int (*init)() = find<int()>(handle, "nvmlInit_v2");
  int (*shutdown)() = find<int()>(handle, "nvmlShutdown");
  const char* (*error_string)(int) = find<const char*(int)>(handle, "nvmlErrorString");
  int (*by_index)(unsigned,
                  NvmlDevice*) = find<int(unsigned, NvmlDevice*)>(handle,
                                                                  "nvmlDeviceGetHandleByIndex_v2");
  int (*by_bus)(const char*, NvmlDevice*) =
      find<int(const char*, NvmlDevice*)>(handle, "nvmlDeviceGetHandleByPciBusId_v2");
  int (*utilization)(NvmlDevice, NvmlUtilization*) =
      find<int(NvmlDevice, NvmlUtilization*)>(handle, "nvmlDeviceGetUtilizationRates");
  int (*memory)(NvmlDevice,
                NvmlMemory*) = find<int(NvmlDevice, NvmlMemory*)>(handle,
                                                                  "nvmlDeviceGetMemoryInfo");
  int (*clock)(NvmlDevice, unsigned,
               unsigned*) = find<int(NvmlDevice, unsigned, unsigned*)>(handle,
                                                                       "nvmlDeviceGetClockInfo");
  int (*temperature)(NvmlDevice, unsigned, unsigned*) =
      find<int(NvmlDevice, unsigned, unsigned*)>(handle, "nvmlDeviceGetTemperature");
  int (*power)(NvmlDevice, unsigned*) = find<int(NvmlDevice, unsigned*)>(handle,
                                                                         "nvmlDeviceGetPowerUsage");

  Library() { check(init(), "nvmlInit"); }
  ~Library() { shutdown(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void check(int code, const char* what) const {
    if (code != nvml_success)
      fail(ErrorKind::unavailable, "GPUs cannot be monitored: {} returned {}", what,
           error_string(code));
  }
};

GpuSensors::GpuSensors(int index) : library_(std::make_unique<const Library>()) {
  if (const std::string bus = bus_of(index); !bus.empty())
    library_->check(library_->by_bus(bus.c_str(), &device_), "nvmlDeviceGetHandleByPciBusId");
  else
    library_->check(library_->by_index(static_cast<unsigned>(index), &device_),
                    "nvmlDeviceGetHandleByIndex");
}

GpuSensors::~GpuSensors() = default;

GpuSensors::Reading GpuSensors::read() const {
  Reading reading;
  Library::NvmlUtilization utilization;
  if (library_->utilization(device_, &utilization) == nvml_success)
    reading.load_percent = utilization.gpu;
  Library::NvmlMemory memory;
  if (library_->memory(device_, &memory) == nvml_success) {
    reading.memory_mb = static_cast<double>(memory.used) / 1e6;
    reading.memory_total_mb = static_cast<double>(memory.total) / 1e6;
  }
  unsigned value = 0;
  if (library_->clock(device_, multiprocessor_clock, &value) == nvml_success)
    reading.clock_mhz = value;
  if (library_->temperature(device_, gpu_temperature, &value) == nvml_success)
    reading.temperature_c = value;
  if (library_->power(device_, &value) == nvml_success) reading.power_w = value / 1e3;
  return reading;
}

}  // namespace tasuki
