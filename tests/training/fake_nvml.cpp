// A libnvidia-ml.so.1 with two GPUs, and of libcuda.so.1 what tells their places: CUDA's number 0
// is NVML's number 1.
#include <cstdio>
#include <cstring>

namespace {

constexpr int success = 0, not_supported = 3, not_found = 6;
char devices[2];  // their addresses are the handles

unsigned number_of(const void* device) {
  return static_cast<unsigned>(static_cast<const char*>(device) - devices);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return success;
}
int nvmlShutdown() {
  return success;
}
const char* nvmlErrorString(int code) {
  return code == not_found ? "Not Found" : "Some Error";
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return not_found;
  *device = &devices[index];
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(std::strcmp(bus, "0000:65:00.0") == 0   ? 1
                                       : std::strcmp(bus, "0000:17:00.0") == 0 ? 0
                                                                               : 9,
                                       device);
}
int nvmlDeviceGetUtilizationRates(const void* device, unsigned* rates) {
  rates[0] = 40 + number_of(device);
  rates[1] = 7;
  return success;
}
int nvmlDeviceGetMemoryInfo(const void* device, unsigned long long* bytes) {
  bytes[0] = 80'000'000'000;
  bytes[2] = 1'000'000'000 + number_of(device) * 500'000'000;
  bytes[1] = bytes[0] - bytes[2];
  return success;
}
int nvmlDeviceGetClockInfo(const void* device, unsigned type, unsigned* megahertz) {
  *megahertz = type == 1 ? 1900 + number_of(device) : 0;
  return success;
}
int nvmlDeviceGetTemperature(const void* device, unsigned sensor, unsigned* celsius) {
  *celsius = sensor == 0 ? 60 + number_of(device) : 0;
  return success;
}
int nvmlDeviceGetPowerUsage(const void* device, unsigned* milliwatts) {
  if (number_of(device) == 0) return not_supported;
  *milliwatts = 250'500;
  return success;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return success;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%s:00.0",
                device == 0   ? "65"
                : device == 1 ? "17"
                              : "99");
  return success;
}

}  // extern "C"
