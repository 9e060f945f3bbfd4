// Devices and memory of the simulated GPU: CUDA's runtime but for what queue.cpp has.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "counts.hpp"
#include "device.hpp"
#include "queue.hpp"
#include "shared_memory.hpp"

namespace tasuki::simulated {
namespace {

using testing::GuardedMemory;

// Blocks by their first address.
struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> device, pinned;
  std::map<const std::byte*, int> device_of;  // of device memory
  std::map<int, std::size_t> used;            // of each device
};

Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

bool is_within(const std::map<const std::byte*, std::size_t>& blocks, const void* address) {
  const auto* const place = static_cast<const std::byte*>(address);
  const auto after = blocks.upper_bound(place);
  if (after == blocks.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return place < begin + bytes;
}

// Memory that CUDA reads and writes on its own time; from other memory of the host it copies before
// the call returns.
bool is_asynchronous(const void* address) {
  const std::lock_guard lock(memory().mutex);
  return is_within(memory().device, address) || is_within(memory().pinned, address);
}

int device_count() {
  const char* const text = std::getenv("FAKE_CUDA_DEVICES");
  return text != nullptr ? std::atoi(text) : 1;
}

// 900 MiB, or FAKE_CUDA_MEMORY in bytes: "1000000,2000000" for devices 0 and 1, or one number for
// all.
std::size_t total_memory(int device) {
  const char* const text = std::getenv("FAKE_CUDA_MEMORY");
  std::size_t bytes = std::size_t{900} << 20;
  std::istringstream numbers(text != nullptr ? text : "");
  std::string number;
  for (int i = 0; i <= device && std::getline(numbers, number, ','); ++i)
    bytes = std::stoull(number);
  return bytes;
}

thread_local int current_device = 0;

cudaError_t failed(cudaError_t error) {
  set_last_error(error);
  return error;
}

}  // namespace

int compute_capability() {
  const char* const text = std::getenv("SIMULATED_CUDA_CAPABILITY");
  return text != nullptr ? std::atoi(text) : 90;
}

extern "C" {

// --- devices ---

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return failed(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::strncpy(properties->name, "Simulated GPU", sizeof(properties->name) - 1);
  properties->totalGlobalMem = total_memory(device);
  properties->multiProcessorCount = 2;
  properties->major = compute_capability() / 10;
  properties->sharedMemPerBlock = shared_bytes_without_opt_in;
  properties->sharedMemPerBlockOptin = most_shared_bytes();
  properties->pciBusID = device + 1;
  properties->uuid.bytes[0] = static_cast<char>(device + 1);  // ranks tell GPUs apart by it
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = compute_capability() / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = compute_capability() % 10;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 2;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(shared_bytes_without_opt_in);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(most_shared_bytes());
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const char id[] = {'0', '0', '0', '0', ':', '0', static_cast<char>('1' + device),
                     ':', '0', '0', '.', '0', '\0'};
  std::strncpy(text, id, static_cast<std::size_t>(length));
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "an error of the simulated GPU";
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    default:
      return "another cudaError_t";
  }
}

// --- memory ---

cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  if (const auto refused = check_recordings(Call::unsafe); refused != cudaSuccess) return refused;
  const std::lock_guard lock(memory().mutex);
  std::size_t& used = memory().used[current_device];
  if (used + bytes > total_memory(current_device)) return failed(cudaErrorMemoryAllocation);
  count("allocation");
  *block = GuardedMemory::instance().acquire(bytes);
  memory().device[static_cast<std::byte*>(*block)] = bytes;
  memory().device_of[static_cast<std::byte*>(*block)] = current_device;
  used += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* block) {
  if (block == nullptr) return cudaSuccess;
  if (const auto refused = check_recordings(Call::waits_for_device); refused != cudaSuccess)
    return refused;
  finish_all();
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().device.find(static_cast<const std::byte*>(block));
  if (found == memory().device.end()) return failed(cudaErrorInvalidValue);
  const auto device = memory().device_of.extract(found->first).mapped();
  memory().used[device] -= found->second;
  GuardedMemory::instance().release(block, found->second);
  memory().device.erase(found);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** block, std::size_t bytes, unsigned /*flags*/) {
  if (const auto refused = check_recordings(Call::unsafe); refused != cudaSuccess) return refused;
  *block = std::aligned_alloc(4096, (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096);
  if (*block == nullptr) return failed(cudaErrorMemoryAllocation);
  count("allocation");
  const std::lock_guard lock(memory().mutex);
  memory().pinned[static_cast<std::byte*>(*block)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* block) {
  if (const auto refused = check_recordings(Call::waits_for_device); refused != cudaSuccess)
    return refused;
  finish_all();
  const std::lock_guard lock(memory().mutex);
  memory().pinned.erase(static_cast<const std::byte*>(block));
  std::free(block);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(memory().mutex);
  *total = total_memory(current_device);
  *free = *total - memory().used[current_device];
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  enqueue(
      stream,
      [=] {
        const Access access;
        std::memcpy(to, from, bytes);
      },
      "copy");
  return is_asynchronous(to) && is_asynchronous(from) ? cudaSuccess : finish(stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int /*device*/, const void* from, int /*from_device*/,
                                std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(
      stream,
      [=] {
        const Access access;
        std::memset(to, value, bytes);
      },
      "filling");
  return cudaSuccess;
}

}  // extern "C"
}  // namespace tasuki::simulated
