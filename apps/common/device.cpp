#include "common/device.hpp"

#include <nlohmann/json.hpp>

#include "common/processors.hpp"
#include "tasuki/communicator/gpu_binding.hpp"
#include "tasuki/communicator/gpu_transport.hpp"
#include "tasuki/communicator/shared_gpu.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/tensor/cuda_loader.hpp"

namespace tasuki::apps {
namespace {

using nlohmann::json;

// The GPUs that this rank sees, or why it can use none.
json look_for_gpus(std::vector<Gpu>& gpus) {
  try {
    load_cuda_backend();
    gpus = gpu_transport().gpus();
  } catch (const Error& error) {
    return {{"kind", error.exit_code()}, {"error", error.what()}};
  }
  json ids = json::array();
  for (const Gpu& gpu : gpus) ids.push_back(gpu.id);
  return {{"gpus", ids}};
}

// The GPUs of all ranks; the first rank that can use none says why, to all.
std::vector<std::vector<std::string>> gather_gpus(const json& own, Communicator& communicator) {
  std::vector<std::vector<std::string>> visible;
  for (const Bytes& bytes : communicator.allgather_bytes(text_to_bytes(own.dump()))) {
    const json found = json::parse(bytes_to_text(bytes));
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

GpuFlags flags_of(const TrainingSettings& settings) {
  GpuFlags flags;
  if (settings.gpu != "auto") flags.number = std::stoi(settings.gpu);
  flags.share = settings.share_gpu;
  return flags;
}

}  // namespace

ChosenDevice choose_device(const TrainingSettings& settings, Communicator& communicator) {
  if (settings.gpu == "none") {
    if (settings.share_gpu)
      fail_everywhere(ErrorKind::usage, "--share-gpu is about ranks on GPUs; add --gpu");
    return {};
  }
  const Topology& topology = communicator.topology();
  // NCCL reads its settings when it is first asked for anything.
  if (settings.share_gpu) prepare_shared_gpu(communicator.rank(), topology.inter_size == 1);

  std::vector<Gpu> gpus;
  const json own = look_for_gpus(gpus);
  const auto visible = gather_gpus(own, communicator);
  const GpuBinding binding = bind_gpus(topology, visible, flags_of(settings));
  if (!binding.refusal.empty())
    throw Error(ErrorKind::config, binding.refusal, ErrorScope::every_rank);

  const GpuChoice& choice = binding.of_rank[static_cast<std::size_t>(communicator.rank())];
  const Gpu& gpu = gpus[static_cast<std::size_t>(choice.index)];
  ChosenDevice chosen;
  chosen.device = Device::cuda(choice.index);
  chosen.text = fmt::format("{} {}", chosen.device.text(), gpu.name);
  if (choice.ranks_on_gpu > 1) chosen.text += fmt::format(" ({} ranks)", choice.ranks_on_gpu);
  chosen.cpus_nearby = cpus_near(gpu.pci_bus_id);
  return chosen;
}

}  // namespace tasuki::apps
