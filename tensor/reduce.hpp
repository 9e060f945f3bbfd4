// Element-wise reductions of values of several ranks or arrays: the operations, and on CPUs the
// arithmetic of every exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.hpp"

namespace tasuki {

enum class ReduceOp { sum, max, min, prod };

constexpr const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::prod:
      return "prod";
  }
  return "";
}

// For every element i < count: (((sources[0][i] op sources[1][i]) op sources[2][i]) ...), written
// to all destinations. Destinations may be sources; arrays must not overlap otherwise. The order is
// the order of `sources`, so results do not depend on the thread or on how the work is divided.
// float16 and bfloat16 are combined in float32 and rounded once, to nearest even. Types: float32,
// float64, float16, bfloat16, int32, int64.
void reduce_arrays(DType type, ReduceOp op, std::span<const void* const> sources,
                   std::span<void* const> destinations, std::int64_t count);

// reduce_arrays() for sums of two or more float32 arrays, with the same bits. Returns whether one
// of the sums is not finite, which takes no other pass over memory.
bool sum_arrays_and_search(std::span<const void* const> sources,
                           std::span<void* const> destinations, std::int64_t count);

// Sums of float32 arrays in the order of a tree. Each source in turn is put on a stack; after
// source i, the two topmost arrays are replaced by their sum merges[i] times, the lower one plus
// the upper one. results[j]: where the j-th array that is left on the stack, from the bottom, is
// written. Destinations may be sources; arrays must not overlap otherwise. Results do not depend on
// how the work is divided. With `searches`, returns whether one of the results is not finite.
bool sum_in_tree(std::span<const float* const> sources, std::span<const int> merges,
                 std::span<const std::vector<float*>> results, std::int64_t count,
                 bool searches = false);

}  // namespace tasuki
