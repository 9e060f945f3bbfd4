// GradientView: the gradients of a model, or a range of them, as an exchange sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/range.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

struct ShardSources;

// Only `arena` is required. The other fields describe the values, how they may be rounded, and what
// ranks know about them or need.
struct GradientView {
  // The elements of one parameter that are in the arena.
  struct Segment {
    std::int64_t offset;  // elements
    std::int64_t count;
  };

  // --- the values ---
  Tensor arena;  // gradients of an arena or of one range: one-dimensional, row-major, float32
  // In the order of the arena, without gaps except padding.
  std::span<const Segment> segments{};

  // --- rounding ---
  // The number of examples that the sums are over; 0: unknown. Values that travel as float16 are
  // scaled by about 1 / this number on their way (algorithms/wire_format.hpp); results are not
  // scaled.
  double wire_scale_hint = 0;
  // The number of elements at the end that are integers below 4096: flags, and the number of
  // examples in two parts. On CPUs their sums must be exact, so they are neither rounded nor
  // compressed.
  std::int64_t exact_at_end = 0;
  // Error feedback, on CPUs: one element for each of the arena's elements. It is added to the
  // values, and then set to this rank's rounding errors. Undefined: rounding errors are lost.
  Tensor residual{};

  // --- what ranks know and need ---
  // The number of gradients of the model before the arena's first element.
  std::int64_t first = 0;
  // All ranks are known to pass the same view as in an earlier exchange, so no message compares
  // their views.
  bool is_agreed = false;
  // An exchange in the background looks less often for messages (UnhurriedWaits): for sums that are
  // needed many steps later.
  bool is_unhurried = false;
  // needed[r]: the gradients whose sums rank r needs, counted from the model's first gradient.
  // Empty: all ranks need all sums. Otherwise a rank's other elements may have any values
  // afterwards, except elements after the last range, which all ranks get. The array must outlive
  // the exchange.
  std::span<const Range> needed{};

  // --- sums of shards ---
  // The arrays that each rank brings, added in the order of a tree (algorithms/shard_tree.hpp).
  // `arena` is a rank's first array, which gets the sums; the others are behind it, at multiples of
  // ShardSources::stride, and may have any values afterwards. Null: each rank brings one array. It
  // must outlive the exchange. A communicator's ranks always bring the same shards.
  const ShardSources* shards = nullptr;

  // needed[rank], counted from the arena's first element.
  Range needed_by(int rank) const;
  // The number of elements, from the arena's first, that not all ranks need.
  std::int64_t divided() const;
  // Whether exactly one rank needs each of these elements, in the order of ranks, as in a
  // reduce-scatter.
  bool is_scattered() const;
};

}  // namespace tasuki
