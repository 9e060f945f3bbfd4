// Which device a rank computes on.
#pragma once

#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/program/options.hpp"
#include "tasuki/tensor/device.hpp"

namespace tasuki::program {

struct ChosenDevice {
  Device device;
  std::string text = "cpu";      // "cuda:1 NVIDIA H100 80GB HBM3", for the banner
  std::vector<int> cpus_nearby;  // empty: all are, or it is not known
};

// --gpu (none, auto, or a number) and --share-gpu.
void add_gpu_options(Options& options, std::string& gpu, bool& share);

// The device that these give this rank (communicator/gpu/gpu_binding.hpp), with NCCL prepared for
// ranks that share one. GPUs that cannot be used, and more ranks than GPUs, are an error that all
// ranks meet. Collective.
ChosenDevice choose_device(const std::string& gpu, bool share, Communicator& communicator);

}  // namespace tasuki::program
