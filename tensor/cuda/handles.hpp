// Owners of CUDA's handles. Construction throws if CUDA refuses; destruction never does, because a
// failing process must be able to end.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "tensor/cuda/check.hpp"

namespace tasuki {

// For unique_ptr: releases a handle with one of CUDA's functions.
template <auto function>
struct CudaRelease {
  template <class Handle>
  void operator()(Handle handle) const noexcept {
    static_cast<void>(function(handle));
  }
};

template <class Handle, auto function>
using CudaHandle = std::unique_ptr<std::remove_pointer_t<Handle>, CudaRelease<function>>;

using CudaStream = CudaHandle<cudaStream_t, &cudaStreamDestroy>;
using CudaEvent = CudaHandle<cudaEvent_t, &cudaEventDestroy>;

// A stream of the current device that does not wait for the default stream.
inline CudaStream make_stream() {
  cudaStream_t made = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return CudaStream(made);
}

// An event for ordering, without a time.
inline CudaEvent make_event() {
  cudaEvent_t made = nullptr;
  check_cuda(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return CudaEvent(made);
}

// An event with a time.
inline CudaEvent make_timing_event() {
  cudaEvent_t made = nullptr;
  check_cuda(cudaEventCreateWithFlags(&made, cudaEventDefault), "cudaEventCreateWithFlags");
  return CudaEvent(made);
}

// Whether what is queued on the stream is recorded instead of done.
inline bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

// Work queued on `later` from now on waits for work queued on `earlier` so far.
void order_streams(cudaStream_t earlier, cudaStream_t later);

}  // namespace tasuki
