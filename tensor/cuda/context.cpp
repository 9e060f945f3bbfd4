#include "tensor/cuda/context.hpp"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "tensor/cuda/matmul.hpp"
#include "tensor/cuda/postponed_release.hpp"
#include "tensor/host_memory.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki {
namespace {

constexpr std::size_t max_devices = 64;

thread_local const CudaStreamScope* scopes_of_this_thread = nullptr;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

CublasLt make_cublaslt() {
  cublasLtHandle_t made = nullptr;
  check_cublas(cublasLtCreate(&made), "cublasLtCreate");
  return CublasLt(made);
}

struct RecordingPools {
  std::mutex mutex;
  std::map<int, std::weak_ptr<BlockPool>> of_device;
};

RecordingPools& recording_pools() {
  static RecordingPools made;
  return made;
}

}  // namespace

void order_streams(cudaStream_t earlier, cudaStream_t later) {
  if (earlier == later) return;
  const CudaEvent event = make_event();
  check_cuda(cudaEventRecord(event.get(), earlier), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(later, event.get()), "cudaStreamWaitEvent");
}

CudaContext& CudaContext::of(Device device) {
  static std::array<std::atomic<CudaContext*>, max_devices> contexts{};
  static std::mutex mutex;
  const auto index = static_cast<std::size_t>(device.index);
  TASUKI_CHECK(device.kind == DeviceKind::cuda && index < max_devices, "{} is no GPU",
               device.text());
  check_cuda(cudaSetDevice(device.index), "cudaSetDevice");
  CudaContext* found = contexts[index].load(std::memory_order_acquire);
  if (found == nullptr) {
    const std::lock_guard lock(mutex);
    found = contexts[index].load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = new CudaContext(device);
      contexts[index].store(found, std::memory_order_release);
    }
  }
  return *found;
}

CudaContext::CudaContext(Device device) : device_(device) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  gpu_name_ = properties.name;
  total_memory_ = properties.totalGlobalMem;
  compute_capability_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device.index) +
                        attribute(cudaDevAttrComputeCapabilityMinor, device.index);
  multiprocessors_ = attribute(cudaDevAttrMultiProcessorCount, device.index);
  stream_ = make_stream();
  matmul_.reset(new MatmulState{make_cublaslt()});
  pool_ = make_pool();
}

std::shared_ptr<BlockPool> CudaContext::make_pool(BlockPool::Segments segments) const {
  const int index = device_.index;
  return std::make_shared<BlockPool>(
      BlockPool::Source{[index](std::size_t bytes) -> void* {
                          check_cuda(cudaSetDevice(index), "cudaSetDevice");
                          void* segment = nullptr;
                          cudaError_t code = cudaMalloc(&segment, bytes);
                          if (code == cudaErrorMemoryAllocation) {
                            release_what_waits();
                            check_cuda(cudaSetDevice(index), "cudaSetDevice");
                            code = cudaMalloc(&segment, bytes);
                          }
                          if (code == cudaErrorMemoryAllocation) {
                            cudaGetLastError();  // clears the error
                            return nullptr;
                          }
                          check_cuda(code, "cudaMalloc");
                          return segment;
                        },
                        // Waits for the device, so the segment is not in use any more. A process
                        // that ends may have lost the device already.
                        [](void* segment) {
                          release_when_idle([segment] { static_cast<void>(cudaFree(segment)); });
                        }},
      segments);
}

cudaStream_t CudaContext::stream() const {
  const CudaStreamScope* const scope = CudaStreamScope::innermost(device_);
  return scope != nullptr ? scope->stream_ : stream_.get();
}

const std::shared_ptr<BlockPool>& CudaContext::pool() const {
  const CudaStreamScope* const scope = CudaStreamScope::innermost(device_);
  return scope != nullptr ? scope->pool_ : pool_;
}

std::shared_ptr<Storage> CudaContext::allocate(std::size_t bytes) {
  const std::shared_ptr<BlockPool>& from = pool();
  void* const block = from->acquire(bytes);
  if (block == nullptr) {
    OutOfMemory::Figures figures{.device = device_, .requested = bytes};
    check_cuda(cudaMemGetInfo(&figures.free, &figures.total), "cudaMemGetInfo");
    figures.in_use = from->statistics().in_use;
    figures.reserved = from->statistics().reserved;
    throw OutOfMemory(figures);
  }
  if (spoils_unwritten())
    check_cuda(cudaMemsetAsync(block, spoilt_byte, bytes, stream()), "cudaMemsetAsync");
  return std::make_shared<Storage>(
      block, bytes, device_, [from](void* data, std::size_t /*bytes*/) { from->release(data); });
}

CudaStreamScope::CudaStreamScope(Device device, cudaStream_t stream,
                                 std::shared_ptr<BlockPool> pool)
    : device_(device), stream_(stream), pool_(std::move(pool)), outer_(scopes_of_this_thread) {
  scopes_of_this_thread = this;
}

CudaStreamScope::~CudaStreamScope() {
  scopes_of_this_thread = outer_;
}

const CudaStreamScope* CudaStreamScope::innermost(Device device) {
  const CudaStreamScope* scope = scopes_of_this_thread;
  while (scope != nullptr && scope->device_ != device) scope = scope->outer_;
  return scope;
}

std::shared_ptr<BlockPool> recording_pool(const CudaContext& context) {
  const std::lock_guard lock(recording_pools().mutex);
  std::weak_ptr<BlockPool>& kept = recording_pools().of_device[context.device().index];
  std::shared_ptr<BlockPool> pool = kept.lock();
  if (!pool) kept = pool = context.make_pool(BlockPool::Segments::kept);
  return pool;
}

std::size_t recording_bytes(const CudaContext& context) {
  const std::lock_guard lock(recording_pools().mutex);
  const auto found = recording_pools().of_device.find(context.device().index);
  const auto pool = found != recording_pools().of_device.end() ? found->second.lock() : nullptr;
  return pool ? pool->statistics().reserved : 0;
}

}  // namespace tasuki
