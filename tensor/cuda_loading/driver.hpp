// NVIDIA's driver, as far as it must be known before the CUDA backend is loaded. Its library,
// libcuda.so.1, is opened at run time and never linked.
#pragma once

namespace tasuki {

struct CudaDriver {
  int version = 0;  // newest CUDA it supports: 1000 * major + 10 * minor
  int devices = 0;  // visible GPUs, at least 1
};

// Initialises the driver. An Error of kind unavailable if there is none, if it does not start, or
// if no GPU is visible (with the value of CUDA_VISIBLE_DEVICES).
CudaDriver start_cuda_driver();

// An error unless a driver of `driver_version` can run code built with CUDA `toolkit_version`: it
// must support the same major version, in any minor one.
void check_cuda_driver_version(int driver_version, int toolkit_version);

}  // namespace tasuki
