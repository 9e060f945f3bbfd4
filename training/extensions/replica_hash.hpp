// Hashes of a copy of the weights and optimizer states, to which several ranks and threads can
// contribute.
//
// A flat array is cut into chunks of 2^16 elements. Each is hashed (XXH3) with its number as seed,
// and the hash of a set of chunks is the sum of their hashes modulo 2^64. So the hashes of ranks
// that share a copy add up to the hash of the copy, however they divide it.
#pragma once

#include <cstdint>
#include <optional>

#include "optimizer/optimizer.hpp"

namespace tasuki {

// The hash of a whole flat array, the same on any device. From a GPU, pieces are copied.
std::uint64_t hash_of_array(const Tensor& array);

// The chunks that a rank reads.
struct ReplicaPart {
  // Of weights that `sharers` ranks share: part number `sharer`.
  std::int64_t sharer = 0, sharers = 1;
  // Of each state that every rank keeps: one of `state_turns` parts (of a small state: one chunk),
  // so that this many turns in a row cover all of it; unset: everything.
  std::optional<std::int64_t> turn = std::nullopt;
};
inline constexpr std::int64_t state_turns = 16;

// The hash of these parts of the weights, frozen ones included, and states. Reads each byte once,
// with all threads of the rank.
std::uint64_t hash_of_replica(const Optimizer& optimizer, const ReplicaPart& part);

}  // namespace tasuki
