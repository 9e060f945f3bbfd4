// Which rank computes on which GPU: a pure function of the placement of the ranks, the GPUs that
// they see, and the flags.
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
};

// The GPU of one rank.
struct GpuChoice {
  int index = -1;        // among the GPUs that it sees (CUDA_VISIBLE_DEVICES); -1: none
  int wanted = -1;       // the index that it needs
  int ranks_on_gpu = 1;  // ranks of the node that have this GPU
};

struct GpuBinding {
  std::vector<GpuChoice> of_rank;
  // Why not every rank has a GPU, with a table of what each needs; empty if every rank has one.
  std::string refusal;
};

// `visible[r]` holds the ids of the GPUs that rank r sees, by index.
//
// Without a number, each rank of a node in turn takes the first GPU that it sees and that no rank
// before it has: the GPU of its number in the node if all ranks see the same ones, its own if the
// launcher gave each rank one. With a number, the only rank of a node takes that GPU. With
// --share-gpu several ranks of a node may have the same GPU: GPUs are assigned round robin, or all
// ranks take the one named.
GpuBinding bind_gpus(const Topology& topology, std::span<const std::vector<std::string>> visible,
                     const GpuFlags& flags);

}  // namespace tasuki
