// Which rank computes on which GPU: a function of the ranks' placement, the GPUs that they see, and
// the flags.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasuki/communicator/topology.hpp"

namespace tasuki {

struct GpuFlags {
  std::optional<int> number;  // --gpu N; without it ranks are dealt out
  bool share = false;         // --share-gpu
};

// What becomes of one rank.
struct GpuChoice {
  int index = -1;        // among the GPUs that the rank sees (CUDA_VISIBLE_DEVICES)
  int wanted = -1;       // the index that it would need
  int ranks_on_gpu = 1;  // ranks of the node that have this GPU
};

struct GpuBinding {
  std::vector<GpuChoice> of_rank;
  // Why it cannot be, as a table of who wanted what; empty when every rank has a GPU.
  std::string refusal;
};

// `visible[r]` holds the ids of the GPUs that rank r sees, by index.
//
// Without a number, the ranks of a node, in order, take the first GPU that they see and that no
// rank before them has: that of their number in the node where all see the same ones, their own
// where the launcher gave each rank one. With a number, a node's only rank takes that GPU.
// --share-gpu lets ranks of a node have the same GPU: dealt out round robin, or all the one named.
GpuBinding bind_gpus(const Topology& topology, std::span<const std::vector<std::string>> visible,
                     const GpuFlags& flags);

}  // namespace tasuki
