// CudaContext: one GPU as this process uses it. Made at the first use of the device and kept until
// the process ends, because tensors with static lifetime may need it that long.
//
// All threads queue their work for a device on one stream, so memory can be passed on and reused in
// the order of the calls. A CudaStreamScope gives a thread another stream.
#pragma once

#include <memory>
#include <string>

#include "tensor/cuda/block_pool.hpp"
#include "tensor/cuda/handles.hpp"
#include "tensor/cuda/launch.hpp"
#include "tensor/cuda/staging.hpp"
#include "tensor/device.hpp"
#include "tensor/storage.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

struct MatmulState;

class CudaContext {
 public:
  // Also makes the device the calling thread's current one, which most CUDA functions require.
  static CudaContext& of(Device device);

  Device device() const { return device_; }
  const std::string& gpu_name() const { return gpu_name_; }
  // 90 for compute capability 9.0.
  int compute_capability() const { return compute_capability_; }
  std::size_t total_memory() const { return total_memory_; }

  // The stream and the pool of the calling thread: the device's, unless there is a CudaStreamScope.
  cudaStream_t stream() const;
  const std::shared_ptr<BlockPool>& pool() const;
  Launch launch() const { return {stream(), multiprocessors_}; }

  // Memory from pool(); throws OutOfMemory. The contents are undefined.
  std::shared_ptr<Storage> allocate(std::size_t bytes);
  // A pool of this device, for a CudaStreamScope.
  std::shared_ptr<BlockPool> make_pool(
      BlockPool::Segments segments = BlockPool::Segments::returned) const;

  // For products (matmul.hpp).
  MatmulState& matmul() { return *matmul_; }
  StagingBuffers& staging() { return staging_; }

 private:
  explicit CudaContext(Device device);

  Device device_;
  std::string gpu_name_;
  int compute_capability_ = 0;
  int multiprocessors_ = 1;
  std::size_t total_memory_ = 0;
  CudaStream stream_;
  std::unique_ptr<MatmulState> matmul_;
  std::shared_ptr<BlockPool> pool_;
  StagingBuffers staging_;
};

// For a kernel that works on this tensor.
inline Launch launch_on(const Tensor& x) {
  return CudaContext::of(x.device()).launch();
}

// While it lives, work of the calling thread on `device` is queued on `stream` and takes its memory
// from `pool`: to capture a graph (which must own the memory that it writes in every replay), or to
// copy beside the computation. The caller orders the streams. Scopes nest.
class CudaStreamScope {
 public:
  CudaStreamScope(Device device, cudaStream_t stream, std::shared_ptr<BlockPool> pool);
  ~CudaStreamScope();
  CudaStreamScope(const CudaStreamScope&) = delete;
  CudaStreamScope& operator=(const CudaStreamScope&) = delete;

 private:
  friend class CudaContext;
  // The innermost scope of the calling thread for a device.
  static const CudaStreamScope* innermost(Device device);

  Device device_;
  cudaStream_t stream_;
  std::shared_ptr<BlockPool> pool_;
  const CudaStreamScope* outer_;
};

// The memory of recorded work: one pool for all recordings of a device that exist at the same time.
// They run one after the other, and nothing in the pool outlives a run except what `work` keeps
// (Backend::record). Its segments are kept as long as any of the recordings, which write to them in
// every replay.
std::shared_ptr<BlockPool> recording_pool(const CudaContext& context);

// Bytes held by recordings of the device.
std::size_t recording_bytes(const CudaContext& context);

}  // namespace tasuki
