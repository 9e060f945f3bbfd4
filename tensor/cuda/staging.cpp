#include "tensor/cuda/staging.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "tensor/cuda/postponed_release.hpp"

namespace tasuki {
namespace {

// Longer copies are divided into pieces of this size, so that the processor fills one while the
// device reads the previous one.
constexpr std::size_t piece = std::size_t{4} << 20;
// Copies in flight before an upload waits for the oldest one.
constexpr std::size_t most_pending = 64;

void* take_pinned(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t code = cudaHostAlloc(&block, bytes, cudaHostAllocDefault);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_cuda(code, "cudaHostAlloc");
  return block;
}

// A recording would repeat a copy from or to memory whose contents have changed by then.
void refuse_to_record(cudaStream_t stream) {
  if (is_recorded(stream))
    fail(ErrorKind::unavailable, "values are copied between the host and the GPU in each step");
}

}  // namespace

StagingBuffers::StagingBuffers()
    : pool_({take_pinned, [](void* block) {
               release_when_idle([block] { static_cast<void>(cudaFreeHost(block)); });
             }}) {}

void StagingBuffers::upload(void* destination, const void* source, std::size_t bytes,
                            cudaStream_t stream) {
  refuse_to_record(stream);
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t here = std::min(piece, bytes - done);
    void* const block = acquire(here);
    std::memcpy(block, from + done, here);
    check_cuda(cudaMemcpyAsync(to + done, block, here, cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync (to the device)");
    release_after(block, stream);
    done += here;
  }
}

void StagingBuffers::download(void* destination, const void* source, std::size_t bytes,
                              cudaStream_t stream) {
  refuse_to_record(stream);
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  // Two pieces: one is copied out of its block while the next one is transferred.
  struct Piece {
    void* block = nullptr;
    std::size_t begin = 0, bytes = 0;
    CudaEvent arrived;
  };
  Piece previous;
  const auto finish = [&](Piece& part) {
    if (part.block == nullptr) return;
    const WaitScope waiting(Waiting::gpu);
    check_cuda(cudaEventSynchronize(part.arrived.get()), "a copy from the device");
    std::memcpy(to + part.begin, part.block, part.bytes);
    pool_.release(std::exchange(part.block, nullptr));
  };
  for (std::size_t done = 0; done < bytes;) {
    Piece next{acquire(std::min(piece, bytes - done)), done, std::min(piece, bytes - done),
               make_event()};
    check_cuda(cudaMemcpyAsync(next.block, from + done, next.bytes, cudaMemcpyDeviceToHost, stream),
               "cudaMemcpyAsync (from the device)");
    check_cuda(cudaEventRecord(next.arrived.get(), stream), "cudaEventRecord");
    done += next.bytes;
    finish(previous);
    previous = std::move(next);
  }
  finish(previous);
}

void* StagingBuffers::acquire(std::size_t bytes) {
  reclaim(false);
  void* block = pool_.acquire(bytes);
  if (block == nullptr) {
    reclaim(true);
    block = pool_.acquire(bytes);
  }
  if (block == nullptr)
    fail(ErrorKind::unavailable,
         "out of page-locked host memory: {} more bytes are needed to copy to or from a GPU; check "
         "ulimit -l and the memory limit of the job",
         bytes);
  return block;
}

void StagingBuffers::release_after(void* block, cudaStream_t stream) {
  CudaEvent done = make_event();
  check_cuda(cudaEventRecord(done.get(), stream), "cudaEventRecord");
  const std::lock_guard lock(mutex_);
  pending_.push_back({block, std::move(done)});
}

void StagingBuffers::reclaim(bool wait) {
  const std::lock_guard lock(mutex_);
  wait = wait || pending_.size() >= most_pending;
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    if (wait) {
      const WaitScope waiting(Waiting::gpu);
      check_cuda(cudaEventSynchronize(oldest.done.get()), "a copy to the device");
    } else {
      const cudaError_t code = cudaEventQuery(oldest.done.get());
      if (code == cudaErrorNotReady) {
        cudaGetLastError();
        return;
      }
      check_cuda(code, "a copy to the device");
    }
    pool_.release(oldest.block);
    pending_.pop_front();
    wait = false;
  }
}

}  // namespace tasuki
