#include "program/start/device.hpp"

#include <algorithm>

#include "communicator/gpu/choose_gpu.hpp"
#include "communicator/gpu/shared_gpu.hpp"
#include "core/error.hpp"
#include "program/start/processors.hpp"
#include "tensor/cuda_loading/loader.hpp"

namespace tasuki::program {

ChosenDevice choose_device(const GpuSettings& settings, Communicator& communicator) {
  if (!settings.is_wanted) return {};
  const Topology& topology = communicator.topology();
  // NCCL reads its settings at its first call.
  if (settings.share) prepare_shared_gpu(communicator.rank(), topology.inter_size == 1);

  const ChosenGpu gpu = choose_gpu({settings.number, settings.share}, communicator);
  ChosenDevice chosen;
  chosen.device = gpu.device;
  chosen.text = fmt::format("{} {}", gpu.device.text(), gpu.name);
  if (gpu.ranks_on_gpu > 1) chosen.text += fmt::format(" ({} ranks)", gpu.ranks_on_gpu);
  chosen.cpus_nearby = cpus_near(gpu.pci_bus_id);
  chosen.gpu_is_shared = gpu.is_shared;
  return chosen;
}

std::string worker_names(const std::vector<Device>& devices) {
  std::string text;
  std::vector<Device> seen;
  for (const Device device : devices) {
    if (std::ranges::find(seen, device) != seen.end()) continue;
    seen.push_back(device);
    text += (text.empty() ? "" : ", ") + device.text();
  }
  return text;
}

int threads_of_worker(const Processors& processors, const ThreadPlan& threads,
                      std::size_t workers) {
  const int count = static_cast<int>(workers);
  // A requested number of threads is for each worker.
  if (!threads.origin.empty()) return threads.threads;
  return plan_threads(std::nullopt, processors.cores, count,
                      static_cast<int>(processors.cpus.size()) / count)
      .threads;
}

void prepare_devices(const std::vector<Device>& devices) {
  for (const Device device : devices) {
    if (device.is_cpu()) continue;
    int visible = 0;
    try {
      visible = load_cuda_backend();
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("--devices: {} (on the CPU: --devices cpu:2)", error.what()),
                  ErrorScope::every_rank);
    }
    if (device.index >= visible)
      fail_everywhere(
          ErrorKind::config,
          "--devices: GPU {} does not exist, this process sees {} (nvidia-smi lists them)",
          device.index, visible);
  }
}

}  // namespace tasuki::program
