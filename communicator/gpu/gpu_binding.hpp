// Decides which rank computes on which GPU, as a pure function of the placement of ranks, the GPUs
// that they see, and the flags.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "communicator/topology.hpp"

namespace tasuki {

struct GpuFlags {
  std::optional<int> number;  // --gpu N; default: each rank of a node gets its own
  bool share = false;         // --share-gpu
  // The setting that asked for GPUs, for messages. Only --gpu has the other two flags beside it.
  std::string asked_by = "--gpu";
};

// The GPU of one rank.
struct GpuChoice {
  int index = -1;        // among the GPUs that the rank sees (CUDA_VISIBLE_DEVICES); -1: none
  int wanted = -1;       // the index that the rank needs
  int ranks_on_gpu = 1;  // ranks of the node that have this GPU
};

struct GpuBinding {
  std::vector<GpuChoice> of_rank;
  // Why not every rank has a GPU, with a table of what each needs; empty if every rank has one.
  std::string refusal;
};

// `visible[r]` holds the ids of the GPUs that rank r sees, by index.
//
// Without a number, each rank of a node in turn takes the first visible GPU that no rank before it
// has taken: GPU i for rank i of the node if all ranks see the same GPUs, or its own GPU if the
// launcher assigned one to each rank. With a number, the node's only rank takes that GPU. With
// --share-gpu, several ranks of a node may have the same GPU: GPUs are assigned round robin, or all
// ranks take the one named.
GpuBinding bind_gpus(const Topology& topology, std::span<const std::vector<std::string>> visible,
                     const GpuFlags& flags);

}  // namespace tasuki
