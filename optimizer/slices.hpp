// Slices of an arena and the ranks that own them.
//
// An owner gets the sums of its slice's gradients, updates the slice with the states of its slice,
// and publishes the new weights. Ranks that keep only the states of their own slice share the
// memory that states take (Rajbhandari et al. 2020, "ZeRO", stage 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/range.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Divides an arena of `count` elements between `owners`. Slices follow each other in the order of
// owners, consist of whole norm blocks (tensor/operations.hpp), and differ by at most one block. So
// one owner sums a block's squares, and no two owners write to the same cache line. Where there are
// fewer blocks than owners, some slices are empty.
std::vector<Range> arena_slices(std::int64_t count, int owners);

// The slices of owners in several groups: owner i is in group groups[i], and each group divides the
// whole arena between its members.
std::vector<Range> slices_of_groups(std::int64_t count, std::span<const std::int64_t> groups);

class SliceOwners {
 public:
  // This process owns all `count` elements.
  explicit SliceOwners(std::int64_t count) : slices_{{0, count}} {}
  // Each rank owns one of arena_slices().
  SliceOwners(std::int64_t count, Communicator& communicator);

  bool are_several() const { return communicator_ != nullptr; }
  // Of each rank.
  const std::vector<Range>& slices() const { return slices_; }
  Range own() const;

  // What follows is collective if there are several owners, and nothing otherwise.
  //
  // Gives each rank the slices of the others, in an array with the arena's offsets.
  // `once_per_node`: as in Communicator::share_parts().
  void share(const Tensor& array, bool once_per_node = false) const;
  // The same for an array that has `per_part` numbers for each of several parts of the arena. Parts
  // follow each other; part i begins at element begins[i], and its owner has computed its numbers.
  void share_numbers(const Tensor& numbers, std::span<const std::int64_t> begins,
                     std::int64_t per_part) const;
  // Replaces a flag by the largest of all owners. Each call sends one more message, which compares
  // types. That is rarely a cost: only loss scaling calls it, which is for GPUs in practice, and
  // there all ranks have all sums.
  void take_largest(const Tensor& flag) const;
  // The parts of all owners, one after the other, on rank `root`; undefined on other ranks. With
  // one owner, the part itself.
  Tensor gather(const Tensor& own_part, int root) const;

  // Sum of squares of an array with the arena's offsets, added in the order of norm blocks.
  double squared_norm(const Tensor& array) const;

 private:
  std::vector<Range> slices_;
  Communicator* communicator_ = nullptr;
};

}  // namespace tasuki
