// Division: which rank gets the sums of which elements of a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "communicator/gradient_view.hpp"
#include "core/range.hpp"

namespace tasuki {

struct Division {
  // An allreduce: all ranks get all `count` elements. Implicit, so that a count can be passed as a
  // division.
  Division(std::int64_t count) : common{0, count} {}  // NOLINT(google-explicit-constructor)

  // parts[r]: the elements that only rank r gets, in increasing order. Empty: an allreduce,
  // otherwise a reduce-scatter. Elements neither in a part nor in `common` are not summed.
  std::vector<std::vector<Range>> parts{};
  Range common;  // elements that all ranks get
  // For sums of shards: what each rank brings. Empty: one array, added in any order.
  std::optional<ShardSources> shards{};

  bool is_scattered() const { return !parts.empty(); }
  // Appends elements to a rank's part; they lie behind the elements that are already in it.
  void append_to_part(int rank, Range elements);
  // Numbers that are equal for equal divisions only, if the same ranks always bring the same
  // shards.
  std::vector<std::int64_t> key() const;
};

// Divides elements [first, first + count) of `gradients` among groups of ranks; the result counts
// from `first`. If the gradients are scattered, each group gets the elements that its ranks need;
// otherwise all groups get all elements. group_of(rank): the rank's group, 0 to `groups` - 1; -1:
// its elements are left out, which sums of shards do not allow.
Division division_of(const GradientView& gradients, std::int64_t first, std::int64_t count,
                     int groups, const std::function<int(int)>& group_of);

}  // namespace tasuki
