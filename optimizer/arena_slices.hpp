// Slices of an arena and the ranks that own them.
//
// An owner gets the sums of its slice's gradients, updates the slice with the slice's states, and
// publishes the new weights. If ranks keep only the states of their own slices, each needs a
// fraction of the memory for states (Rajbhandari et al. 2020, "ZeRO", stage 1).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/range.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Divides an arena of `count` elements between `owners`. Slices follow each other in the order of
// owners, consist of whole norm blocks (tensor/update_operations.hpp), and differ by at most one
// block. So the squares of a block are summed by one owner, and no two owners write to the same
// cache line. If there are fewer blocks than owners, some slices are empty.
std::vector<Range> arena_slices(std::int64_t count, int owners);

// Applies an update in parts, for callers with threads or extra copies of the weights. A
// SpreadUpdate must call `apply` for ranges of arena elements that together cover [0, count)
// exactly once. Ranges begin at multiples of 16.
using ApplyRange = std::function<void(std::int64_t begin, std::int64_t end)>;
using SpreadUpdate = std::function<void(const ApplyRange& apply, std::int64_t count)>;

// The slices of owners in several groups: owner i is in group groups[i], and each group divides the
// whole arena between its members.
std::vector<Range> slices_of_groups(std::int64_t count, std::span<const std::int64_t> groups);

// Who owns what, and so which sums of gradients each rank needs.
class SliceOwners {
 public:
  // As GradientView::needed: the elements whose sums each rank of the job needs. Empty: each rank
  // needs all sums.
  using Needed = std::vector<Range>;
  // This process owns all `count` elements.
  explicit SliceOwners(std::int64_t count, Needed needed = {})
      : slices_{{0, count}}, needed_(std::move(needed)) {}
  // Each rank owns one of arena_slices().
  SliceOwners(std::int64_t count, Communicator& communicator, Needed needed = {});

  bool are_several() const { return communicator_ != nullptr; }
  Range own() const;
  std::span<const Range> needed() const { return needed_; }
  // The elements whose gradients on this rank are sums after an exchange.
  Range summed() const;

  // The functions below are collective if there are several owners; with one owner they need no
  // messages.
  //
  // Gives each rank the slices of the others, in an array with the arena's offsets.
  // `once_per_node`: as in Communicator::share_parts().
  void share(const Tensor& array, bool once_per_node = false) const;
  // share() for an array with `per_part` numbers for each of several parts of the arena. Parts
  // follow each other; part i begins at element begins[i], and the owner of that element has
  // computed its numbers.
  void share_numbers(const Tensor& numbers, std::span<const std::int64_t> begins,
                     std::int64_t per_part) const;
  // Replaces a flag by the maximum over all owners. Each call sends an extra message, which
  // compares types: loss scaling and skip_non_finite() call it, once a step.
  void take_largest(const Tensor& flag) const;
  // The parts of all owners, one after the other, on rank `root`; undefined on other ranks. With
  // one owner, the part itself.
  Tensor gather(const Tensor& own_part, int root) const;

  // The sum of squares of an array with the arena's offsets, added in the order of norm blocks.
  double squared_norm(const Tensor& array) const;

 private:
  std::vector<Range> slices_;  // of each owner
  Needed needed_;
  Communicator* communicator_ = nullptr;
};

}  // namespace tasuki
