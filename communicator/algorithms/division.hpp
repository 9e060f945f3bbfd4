// Division: which ranks get the sums of which elements of a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/core/range.hpp"

namespace tasuki {

struct Division {
  // All ranks get all of `count` elements: an allreduce.
  Division(std::int64_t count) : common{0, count} {}  // NOLINT(google-explicit-constructor)

  // Of each rank, what it alone gets, in increasing order, as in a reduce-scatter; no ranks: none
  // gets anything alone. What is in no part, nor common, is left out.
  std::vector<std::vector<Range>> parts{};
  Range common;  // what all ranks get

  bool is_scattered() const { return !parts.empty(); }
  // Adds elements behind those that the rank gets so far.
  void give(int rank, Range elements);
  // Equal for equal divisions.
  std::vector<std::int64_t> key() const;
};

// Of elements [first, first + count) of gradients, counted from `first`: among `groups` of ranks if
// the gradients are scattered, else an allreduce. `group_of`: the group that gets what the rank
// needs; -1: none of them.
Division division_of(const GradientView& gradients, std::int64_t first, std::int64_t count,
                     int groups, const std::function<int(int)>& group_of);

}  // namespace tasuki
