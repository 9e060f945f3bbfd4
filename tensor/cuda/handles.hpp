// Owners of CUDA's handles. Making one throws when CUDA refuses; giving one back never does, as a
// failing process has to get to its end.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "tasuki/tensor/cuda/check.hpp"

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
using CublasLt = CudaHandle<cublasLtHandle_t, &cublasLtDestroy>;

// A stream of the current device that does not wait for the default stream.
inline CudaStream make_stream() {
  cudaStream_t made = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return CudaStream(made);
}

// An event for order alone, without a time.
inline CudaEvent make_event() {
  cudaEvent_t made = nullptr;
  check_cuda(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return CudaEvent(made);
}

// An event that knows when it was.
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

// What is queued on `later` from now on waits for what is queued on `earlier` so far.
void order_streams(cudaStream_t earlier, cudaStream_t later);

}  // namespace tasuki
