// ShardTree: in which order the sums of shards are added, whatever ranks have the shards.
//
// Sums of floating-point numbers depend on their order. If V shards are leaves of a fixed tree, and
// each node of the tree is the sum of its left and its right part, the sum of all is the same for
// any division of the shards among ranks, nodes and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/range.hpp"

namespace tasuki {

// A node of the tree has shards [i 2^k, (i + 1) 2^k), as far as they exist, and consists of the
// nodes of its first and of its second 2^(k - 1) shards; without the second, it equals the first.
// So 24 shards are ((0..7 + 8..15) + 16..23), and halves down to single shards.
class ShardTree {
 public:
  ShardTree() = default;
  explicit ShardTree(std::int64_t shards);

  std::int64_t shards() const { return shards_; }
  // The fewest nodes that consist of exactly these shards, in their order.
  std::vector<Range> roots_of(Range shards) const;
  // Whether the two are the parts of one node.
  bool are_siblings(Range left, Range right) const;
  // As TreeOrder::merges, for the sum of `node` if only these of its shards have values.
  std::vector<int> merges_within(Range node, std::span<const std::int64_t> shards) const;

 private:
  std::int64_t shards_ = 0;
};

// How sums of nodes that follow one another are added. Each source in turn is put on a stack; after
// source i, the two topmost sums are added merges[i] times, the lower one first. What is left on
// the stack are the sums of `roots`.
struct TreeOrder {
  // `sources`: nodes in increasing order; none is a part of another one.
  TreeOrder(const ShardTree& tree, std::span<const Range> sources);

  std::vector<int> merges;
  std::vector<Range> roots;
};

// Whose sums are added in the order of a tree: each of some groups (ranks, nodes) brings sums of
// its own.
struct ShardSources {
  ShardTree tree;
  // The nodes that each group brings, in increasing order, as arrays one after the other.
  std::vector<std::vector<Range>> of_group;
  // Elements from the beginning of a group's array to that of its next one.
  std::int64_t stride = 0;

  // The most arrays that a group brings.
  std::size_t most() const;
  // The sources of all groups in the order of the tree. `group` and `array` say which it is.
  struct Source {
    std::size_t group, array;
    Range node;
  };
  std::vector<Source> in_order() const;
  // As in_order(), of these groups only.
  std::vector<Source> in_order(std::span<const int> groups) const;
  // What larger groups bring when each has added up what its groups brought; group `i` belongs to
  // the larger group larger_of(i), one of `count`.
  ShardSources added_up(std::size_t count, const std::function<int(int)>& larger_of) const;
};

// The nodes of sources, for TreeOrder.
std::vector<Range> nodes_of(std::span<const ShardSources::Source> sources);

}  // namespace tasuki
