#include "program/start/device.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "communicator/gpu/gpu_binding.hpp"
#include "communicator/gpu/shared_gpu.hpp"
#include "communicator/objects.hpp"
#include "core/error.hpp"
#include "program/start/processors.hpp"
#include "tensor/cuda_loading/loader.hpp"

namespace tasuki::program {
namespace {

using nlohmann::json;

// The GPUs that this rank sees, or why it can use none.
json look_for_gpus(std::vector<Gpu>& gpus) {
  try {
    gpus = visible_gpus();
  } catch (const Error& error) {
    return {{"kind", error.exit_code()}, {"error", error.what()}};
  }
  json ids = json::array();
  for (const Gpu& gpu : gpus) ids.push_back(gpu.id);
  return {{"gpus", ids}};
}

// The GPUs of all ranks. If a rank can use none, all throw the error of the first such rank.
std::vector<std::vector<std::string>> gather_gpus(const json& own, Communicator& communicator) {
  std::vector<std::vector<std::string>> visible;
  for (const json& found : allgather_object(communicator, own)) {
    if (found.contains("gpus")) {
      visible.push_back(found.at("gpus"));
      continue;
    }
    const Topology& topology = communicator.topology();
    const std::string who =
        topology.inter_size == 1
            ? ""
            : fmt::format("rank {} on {}: ", visible.size(), topology.host_of[visible.size()]);
    throw Error(static_cast<ErrorKind>(found.at("kind").get<int>()),
                fmt::format("--gpu: {}{}", who, found.at("error").get<std::string>()),
                ErrorScope::every_rank);
  }
  return visible;
}

}  // namespace

ChosenDevice choose_device(const GpuSettings& settings, Communicator& communicator) {
  if (!settings.is_wanted) return {};
  const Topology& topology = communicator.topology();
  // NCCL reads its settings at its first call.
  if (settings.share) prepare_shared_gpu(communicator.rank(), topology.inter_size == 1);

  std::vector<Gpu> gpus;
  const json own = look_for_gpus(gpus);
  const auto visible = gather_gpus(own, communicator);
  const GpuBinding binding = bind_gpus(topology, visible, {settings.number, settings.share});
  if (!binding.refusal.empty())
    throw TableError(ErrorKind::config, binding.refusal, ErrorScope::every_rank);

  const GpuChoice& choice = binding.of_rank[static_cast<std::size_t>(communicator.rank())];
  const Gpu& own_gpu = gpus[static_cast<std::size_t>(choice.index)];
  ChosenDevice chosen;
  chosen.device = Device::cuda(choice.index);
  chosen.text = fmt::format("{} {}", chosen.device.text(), own_gpu.name);
  if (choice.ranks_on_gpu > 1) chosen.text += fmt::format(" ({} ranks)", choice.ranks_on_gpu);
  chosen.cpus_nearby = cpus_near(own_gpu.pci_bus_id);
  chosen.gpu_is_shared = std::ranges::any_of(
      binding.of_rank, [](const GpuChoice& one) { return one.ranks_on_gpu > 1; });
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
