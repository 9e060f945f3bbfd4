// Sharding: what the ranks of a job divide among them in place of keeping all of it on each
// (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models").
#pragma once

#include <cstdint>

namespace tasuki {

// Each includes the one before. Every rank owns a slice of the arena (arena_slices.hpp).
//   states: a rank keeps the optimizer's states of its slice, updates it, and gives its new weights
// to the others (stage 1).
//   gradients: it also keeps the sums of the gradients of its slice only (stage 2,
// gradient_slots.hpp). On CPUs. With steps of shards (Optimizer::set_shards) a rank keeps all of
// them, because their order of addition is that of shards, and where that takes less memory
// (ParameterArena::keeps_sums_only).
//   weights: a node also keeps the weights of its ranks' slices only, and gathers others while a
//   pass
// uses them (stage 3, divided_weights.hpp). On CPUs, where several nodes, or ranks that share no
// memory, keep weights.
enum class Sharding : std::uint8_t { none, states, gradients, weights };

}  // namespace tasuki
