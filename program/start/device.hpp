// The device that a rank computes on.
#pragma once

#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "program/flags/options.hpp"
#include "program/training_settings.hpp"
#include "tensor/device.hpp"

namespace tasuki::program {

struct ChosenDevice {
  Device device;
  std::string text = "cpu";      // "cuda:1 NVIDIA H100 80GB HBM3", for the banner
  std::vector<int> cpus_nearby;  // empty: all CPUs, or not known
  bool gpu_is_shared = false;    // by ranks of this node or of another; the same on all ranks
};

// --gpu (none, auto, or a number) and --share-gpu.
void add_gpu_flags(Options& options, GpuSettings& settings);

// The values of --wire-dtype.
const std::vector<Choice<DType>>& wire_dtypes();
// --allreduce; empty: `auto`.
void add_allreduce_flag(Options& options, std::optional<AllreduceAlgorithm>& algorithm);

// The device that the settings give this rank (communicator/gpu/gpu_binding.hpp); prepares NCCL for
// ranks that share a GPU. GPUs that cannot be used, and more ranks than GPUs, are an error on all
// ranks. Collective.
ChosenDevice choose_device(const GpuSettings& settings, Communicator& communicator);

}  // namespace tasuki::program
