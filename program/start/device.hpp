// The devices that a rank computes on.
#pragma once

#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "program/flags/training_settings.hpp"
#include "program/start/processors.hpp"
#include "tensor/device.hpp"

namespace tasuki::program {

struct ChosenDevice {
  Device device;
  std::string text = "cpu";      // "cuda:1 NVIDIA H100 80GB HBM3", for the banner
  std::vector<int> cpus_nearby;  // empty: all CPUs, or not known
  bool gpu_is_shared = false;    // by ranks of this node or of another; the same on all ranks
};

// Chooses this rank's device (communicator/gpu/gpu_binding.hpp), and prepares NCCL for ranks that
// share a GPU. Unusable GPUs, or fewer GPUs than ranks, are an error on all ranks. Collective.
ChosenDevice choose_device(const GpuSettings& settings, Communicator& communicator);

// "cpu", "cuda:0, cuda:1": each device once, for messages.
std::string worker_names(const std::vector<Device>& devices);
// Threads that each worker computes with: the requested number, or the process's cores divided
// among its workers.
int threads_of_worker(const Processors& processors, const ThreadPlan& threads, std::size_t workers);
// Loads the CUDA backend if there are GPUs among the devices. A missing driver or library is an
// error of kind unavailable, a number without a GPU one of kind config.
void prepare_devices(const std::vector<Device>& devices);

}  // namespace tasuki::program
