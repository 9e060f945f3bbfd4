#include "common/device.hpp"

#include "tasuki/core/error.hpp"
#include "tasuki/tensor/cuda_loader.hpp"

namespace tasuki::apps {
namespace {

// The number of GPUs that this rank sees. On one machine all ranks meet the same obstacle; on
// several the one that does says so.
int visible_gpus(const Topology& topology) {
  try {
    return load_cuda_backend();
  } catch (const Error& error) {
    const bool is_one_machine = topology.inter_size == 1;
    throw Error(error.kind(), fmt::format("--gpu: {}", error.what()),
                is_one_machine ? ErrorScope::every_rank : ErrorScope::this_rank);
  }
}

}  // namespace

Device select_device(const std::string& gpu, const Topology& topology) {
  if (gpu == "none") return Device::cpu();
  const int visible = visible_gpus(topology);
  const int index = gpu == "auto" ? topology.intra_rank : std::stoi(gpu);
  if (index >= visible)
    fail(ErrorKind::config, "--gpu: GPU {} was asked for, this rank sees {}; see nvidia-smi", index,
         visible);
  return Device::cuda(index);
}

}  // namespace tasuki::apps
