// auto: chooses the best of the other kinds for the placement and the devices found, and makes one
// under that kind's name.
#include <utility>

#include "communicator/mpi/ranks.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

struct Choice {
  const char* name;
  const char* reason;
};

Choice choose(const Topology& topology, const CommunicatorOptions& options) {
  // NCCL's kernels wait for each other, and a GPU runs its processes in turns of milliseconds
  // (bench/results/gpu.md).
  if (options.gpu_is_shared) return {"flat", "ranks that share a GPU do not run at the same time"};
  if (!options.device.is_cpu())
    return {"pure_nccl", "NCCL finds the fastest way between GPUs itself"};
  if (topology.inter_size == 1) return {"single_node", "all ranks are on one node"};
  if (topology.ranks_per_node() == 0)
    return {"hierarchical", "nodes have different numbers of ranks"};
  return {"two_dimensional", "several nodes with the same number of ranks"};
}

std::unique_ptr<Communicator> create_chosen(CommunicatorSetup setup) {
  const Topology topology = discover_topology(mpi_ranks(setup));
  const Choice choice = choose(topology, setup.options);
  // For a part of the ranks (Communicator::split): what was chosen for messages between nodes.
  if (setup.ranks != nullptr && topology.inter_size == 1) setup.options.algorithm.reset();
  setup.chosen_by = std::exchange(setup.name, choice.name);
  setup.reason = choice.reason;
  return create_communicator(setup);
}

const bool is_registered = [] {
  register_communicator(
      {.name = "auto",
       .summary = "the best of the others for the placement and devices found; the default",
       .needs = "memory that the ranks of a node can share (else use flat)",
       .create = create_chosen,
       .takes_wire_dtype = true,
       .takes_algorithm = true});
  return true;
}();

}  // namespace
}  // namespace tasuki
