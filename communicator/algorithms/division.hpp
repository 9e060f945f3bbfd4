// Division: which ranks get the sums of which elements of a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "communicator/gradient_view.hpp"
#include "core/range.hpp"

namespace tasuki {

struct Division {
  // An allreduce: all ranks get all of `count` elements. Implicit, so that functions take a count
  // where they take a division.
  Division(std::int64_t count) : common{0, count} {}  // NOLINT(google-explicit-constructor)

  // parts[r]: the elements that rank r alone gets, in increasing order. Empty: an allreduce,
  // otherwise a reduce-scatter. Elements in no part and not in `common` are not summed.
  std::vector<std::vector<Range>> parts{};
  Range common;  // elements that all ranks get

  bool is_scattered() const { return !parts.empty(); }
  // Appends elements to the part of a rank; they lie behind those that are in it.
  void append_to_part(int rank, Range elements);
  // Numbers that are the same for equal divisions, and only for these.
  std::vector<std::int64_t> key() const;
};

// Divides elements [first, first + count) of `gradients`, which are counted from `first` on, among
// groups of ranks. If the gradients are scattered, each group gets the elements that its ranks
// need; otherwise all groups get all elements. group_of(rank): the rank's group, 0 to `groups` - 1;
// -1: its elements are left out.
Division division_of(const GradientView& gradients, std::int64_t first, std::int64_t count,
                     int groups, const std::function<int(int)>& group_of);

}  // namespace tasuki
