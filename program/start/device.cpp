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

void add_gpu_flags(Options& options, GpuSettings& settings) {
  Option option;
  option.value_name = "N";
  option.help =
      "compute on GPUs. Without a value, or with `auto`, each rank uses the GPU whose number is "
      "its rank within the node; with N, every rank uses GPU N, which allows only one rank per "
      "node (unless --share-gpu is given)";
  option.implicit = "auto";
  option.set = [&settings](const std::string& text) {
    std::optional<int> number;
    if (text != "none" && text != "auto") {
      try {
        number = static_cast<int>(parse_integer(text, {0, 1023}));
      } catch (const std::invalid_argument& expected) {
        throw std::invalid_argument(fmt::format("{}, 'auto' or 'none'", expected.what()));
      }
    }
    settings.is_wanted = text != "none";
    settings.number = number;
  };
  option.get = [&settings]() -> std::string {
    if (!settings.is_wanted) return "none";
    return settings.number ? std::to_string(*settings.number) : "auto";
  };
  options.add("gpu,g", option).common("compute on GPUs, or on GPU N");
  options.add("share-gpu", settings.share,
              "let several ranks compute on one GPU: correct but slow, for tests");
}

const std::vector<Choice<DType>>& wire_dtypes() {
  static const std::vector<Choice<DType>> types = {
      {"fp32", DType::float32}, {"fp16", DType::float16}, {"bf16", DType::bfloat16}};
  return types;
}

void add_allreduce_flag(Options& options, std::optional<AllreduceAlgorithm>& algorithm) {
  std::vector<Choice<AllreduceAlgorithm>> choices;
  for (const AllreduceAlgorithm each : allreduce_algorithms())
    choices.push_back({name_of(each), each});
  options.add(
      "allreduce", algorithm, "auto", choices, "NAME",
      "auto, ring, halving-doubling, tree, direct or mpi: algorithm of hierarchical, "
      "two_dimensional, non_cuda_aware and flat; `auto`: the one with the lowest predicted time "
      "(flat: MPI_Allreduce). No effect where MPI itself sums values in GPU memory");
}

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

}  // namespace tasuki::program
