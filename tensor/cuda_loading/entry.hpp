// What connects libtasuki.so to libtasuki_cuda.so, and the two folders of the latter to each other.
#pragma once

#include <vector>

#include "tensor/cuda_loading/loader.hpp"

namespace tasuki {

struct CudaEntry {
  const char* version;         // of Tasuki, to be the same
  int toolkit;                 // CUDA that it was built with: 1000 * major + 10 * minor
  void (*register_backend)();  // called once, after the driver has started
  std::vector<Gpu> (*gpus)();  // what visible_gpus() returns
};

// A variable with C linkage of type CudaEntry.
inline constexpr const char* cuda_entry_name = "tasuki_cuda_entry";

// In communicator/cuda, which tensor/cuda cannot include: registers the transport between GPUs
// (communicator/gpu/gpu_transport.hpp).
void register_nccl_transport();

}  // namespace tasuki
