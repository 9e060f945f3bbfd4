#include "communicator/gpu/choose_gpu.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "communicator/objects.hpp"
#include "core/error.hpp"
#include "tensor/cuda_loading/loader.hpp"

namespace tasuki {
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
std::vector<std::vector<std::string>> gather_gpus(const json& own, Communicator& communicator,
                                                  const std::string& asked_by) {
  std::vector<std::vector<std::string>> visible;
  const Topology& topology = communicator.topology();
  for (const json& found : allgather_object(communicator, own)) {
    if (found.contains("gpus")) {
      visible.push_back(found.at("gpus"));
      continue;
    }
    const std::string who =
        topology.inter_size == 1
            ? ""
            : fmt::format("rank {} on {}: ", visible.size(), topology.host_of[visible.size()]);
    throw Error(static_cast<ErrorKind>(found.at("kind").get<int>()),
                fmt::format("{}: {}{}", asked_by, who, found.at("error").get<std::string>()),
                topology.shared_error_scope);
  }
  return visible;
}

}  // namespace

ChosenGpu choose_gpu(const GpuFlags& flags, Communicator& communicator) {
  std::vector<Gpu> gpus;
  const json own = look_for_gpus(gpus);
  const auto visible = gather_gpus(own, communicator, flags.asked_by);
  const GpuBinding binding = bind_gpus(communicator.topology(), visible, flags);
  if (!binding.refusal.empty())
    throw TableError(ErrorKind::config, binding.refusal,
                     communicator.topology().shared_error_scope);

  const GpuChoice& choice = binding.of_rank[static_cast<std::size_t>(communicator.rank())];
  const Gpu& gpu = gpus[static_cast<std::size_t>(choice.index)];
  return {.device = Device::cuda(choice.index),
          .name = gpu.name,
          .pci_bus_id = gpu.pci_bus_id,
          .ranks_on_gpu = choice.ranks_on_gpu,
          .is_shared = std::ranges::any_of(
              binding.of_rank, [](const GpuChoice& one) { return one.ranks_on_gpu > 1; })};
}

}  // namespace tasuki
