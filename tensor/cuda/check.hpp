// Checked calls of CUDA's libraries: a code that is no success becomes an Error with the name of
// the function, the code's name and the library's own text.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace tasuki {

// Kind unavailable for what the machine lacks (driver, device, memory), io for a device that fails
// or falls off the bus, internal for the rest. An error of earlier work on the device may appear in
// any later call; the message says so.
void check_cuda(cudaError_t code, const char* call);
void check_cublas(cublasStatus_t code, const char* call);
// After a kernel launch.
void check_launch(const char* kernel);

}  // namespace tasuki
