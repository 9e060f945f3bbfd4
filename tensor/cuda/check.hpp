// Checked calls of CUDA's runtime (of cuBLAS: matmul.hpp): a failure becomes an Error with the name
// of the function, the code's name and the library's own text.
#pragma once

#include <cuda_runtime_api.h>

namespace tasuki {

// Kind unavailable if the machine lacks something (driver, device, memory), io if a device fails or
// falls off the bus, internal otherwise. An error of earlier work on the device may appear in any
// later call; the message says so.
void check_cuda(cudaError_t code, const char* call);
// Whether a code belongs to a kernel or a copy that ran earlier; this process then cannot use the
// device any more.
bool is_of_earlier_work(cudaError_t code);
// After a call that failed and that another one replaces: clears CUDA's error, which the next
// launch would otherwise report. An Error if the device cannot be used any more.
void clear_error(const char* call);
// To be called after a kernel launch.
void check_launch(const char* kernel);

// Whether an exception is unwinding the calling thread. Nothing waits for a device then, not even
// to free its memory: its work may never end (an exchange with a lost rank), and the process is
// about to end.
bool is_failing() noexcept;

}  // namespace tasuki
