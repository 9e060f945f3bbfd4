// The GPU that this rank computes on.
#pragma once

#include <string>

#include "communicator/communicator.hpp"
#include "communicator/gpu/gpu_binding.hpp"

namespace tasuki {

struct ChosenGpu {
  Device device;
  std::string name;        // "NVIDIA H100 80GB HBM3"
  std::string pci_bus_id;  // empty: not known
  int ranks_on_gpu = 1;    // of this node
  bool is_shared = false;  // any GPU of the job is, by ranks of its node; the same on all ranks
};

// Loads the CUDA backend, looks at the GPUs that each rank sees, and chooses by bind_gpus(). GPUs
// that cannot be used, or fewer GPUs than ranks, are an error on all ranks. With GpuFlags::share,
// call prepare_shared_gpu() first. Collective.
ChosenGpu choose_gpu(const GpuFlags& flags, Communicator& communicator);

}  // namespace tasuki
