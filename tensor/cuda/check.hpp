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
// Whether a code is of a kernel or a copy that ran earlier; the device is lost to this process
// then.
bool is_of_earlier_work(cudaError_t code);
// After a kernel launch.
void check_launch(const char* kernel);

// Whether an error goes through the calling thread. Nothing waits for a device then, not even to
// free its memory: it may be at work that has no end (an exchange with a rank that is lost), and
// the process is about to end.
bool is_failing() noexcept;

}  // namespace tasuki
