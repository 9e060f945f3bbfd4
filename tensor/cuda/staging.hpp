// Page-locked host memory through which values travel between ordinary host memory and a GPU: the
// device reads and writes it without the processor.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <mutex>

#include "tensor/cuda/block_pool.hpp"
#include "tensor/cuda/handles.hpp"

namespace tasuki {

// Of one device; thread-safe.
class StagingBuffers {
 public:
  StagingBuffers();

  // Queues a copy of host memory to the device. The host memory may change once this returns. Does
  // not wait for the device, unless many copies are in flight already.
  void upload(void* destination, const void* source, std::size_t bytes, cudaStream_t stream);
  // Copies device memory to the host and waits for that.
  void download(void* destination, const void* source, std::size_t bytes, cudaStream_t stream);

 private:
  // A block that is free once its copy is done.
  struct Pending {
    void* block;
    CudaEvent done;
  };
  void* acquire(std::size_t bytes);
  void release_after(void* block, cudaStream_t stream);
  // Takes back the blocks whose copies are done; with `wait` at least one, if there are any.
  void reclaim(bool wait);

  BlockPool pool_;
  std::mutex mutex_;
  std::deque<Pending> pending_;
};

}  // namespace tasuki
