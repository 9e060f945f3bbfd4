// Which device a rank computes on.
#pragma once

#include <string>
#include <vector>

#include "common/training_options.hpp"
#include "tasuki/communicator/communicator.hpp"
#include "tasuki/tensor/device.hpp"

namespace tasuki::apps {

struct ChosenDevice {
  Device device;
  std::string text = "cpu";      // "cuda:1 NVIDIA H100 80GB HBM3", for the banner
  std::vector<int> cpus_nearby;  // empty: all are, or it is not known
};

// The device that --gpu and --share-gpu give this rank (communicator/gpu_binding.hpp), with NCCL
// prepared for ranks that share one. GPUs that cannot be used, and more ranks than GPUs, are an
// error that all ranks meet. Collective.
ChosenDevice choose_device(const TrainingSettings& settings, Communicator& communicator);

}  // namespace tasuki::apps
