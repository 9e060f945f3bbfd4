#include "communicator/algorithms/shard_tree.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/error.hpp"

namespace tasuki {

ShardTree::ShardTree(std::int64_t shards) : shards_(shards) {
  TASUKI_CHECK(shards >= 1, "a tree of {} shards", shards);
}

// From the first shard on, the largest node that begins there and ends within the range.
std::vector<Range> ShardTree::roots_of(Range shards) const {
  TASUKI_CHECK(0 <= shards.begin && shards.end <= shards_, "shards [{}, {}) of {}", shards.begin,
               shards.end, shards_);
  std::vector<Range> roots;
  for (std::int64_t begin = shards.begin; begin < shards.end; begin = roots.back().end) {
    std::int64_t size = 1;
    while (begin % (2 * size) == 0 && size < shards_ &&
           std::min(begin + 2 * size, shards_) <= shards.end)
      size *= 2;
    roots.push_back({begin, std::min(begin + size, shards_)});
  }
  return roots;
}

// The first part of a node is full if there is a second one.
bool ShardTree::are_siblings(Range left, Range right) const {
  const std::int64_t size = left.size();
  return left.end == right.begin && std::has_single_bit(static_cast<std::uint64_t>(size)) &&
         left.begin % (2 * size) == 0 && right.end == std::min(left.begin + 2 * size, shards_);
}

std::vector<int> ShardTree::merges_within(Range node, std::span<const std::int64_t> shards) const {
  struct Sum {
    Range node;
    bool has_values;
  };
  std::vector<int> merges;
  std::vector<Sum> sums;
  for (std::int64_t shard = node.begin; shard < node.end; ++shard) {
    const bool has_values = merges.size() < shards.size() && shards[merges.size()] == shard;
    if (has_values) merges.push_back(0);
    Sum sum{{shard, shard + 1}, has_values};
    while (!sums.empty() && are_siblings(sums.back().node, sum.node)) {
      if (sums.back().has_values && sum.has_values) ++merges.back();
      sum = {{sums.back().node.begin, sum.node.end}, sums.back().has_values || sum.has_values};
      sums.pop_back();
    }
    sums.push_back(sum);
  }
  TASUKI_CHECK(merges.size() == shards.size() && sums.size() == 1,
               "shards [{}, {}) are not a node with {} shards that have values", node.begin,
               node.end, shards.size());
  return merges;
}

TreeOrder::TreeOrder(const ShardTree& tree, std::span<const Range> sources) {
  for (const Range& source : sources) {
    roots.push_back(source);
    int added = 0;
    while (roots.size() > 1 && tree.are_siblings(roots[roots.size() - 2], roots.back())) {
      const Range right = roots.back();
      roots.pop_back();
      roots.back().end = right.end;
      ++added;
    }
    merges.push_back(added);
  }
}

std::size_t ShardSources::most() const {
  return std::ranges::max(of_group, {}, &std::vector<Range>::size).size();
}

std::vector<ShardSources::Source> ShardSources::in_order() const {
  std::vector<int> groups(of_group.size());
  std::iota(groups.begin(), groups.end(), 0);
  return in_order(groups);
}

std::vector<ShardSources::Source> ShardSources::in_order(std::span<const int> groups) const {
  std::vector<Source> sources;
  for (const int group : groups) {
    const auto& nodes = of_group[static_cast<std::size_t>(group)];
    for (std::size_t array = 0; array < nodes.size(); ++array)
      sources.push_back({static_cast<std::size_t>(group), array, nodes[array]});
  }
  std::ranges::sort(sources, {}, [](const Source& source) { return source.node.begin; });
  return sources;
}

ShardSources ShardSources::added_up(std::size_t count,
                                    const std::function<int(int)>& larger_of) const {
  std::vector<std::vector<int>> members(count);
  for (int group = 0; group < static_cast<int>(of_group.size()); ++group)
    members.at(static_cast<std::size_t>(larger_of(group))).push_back(group);
  ShardSources larger{tree, {}, stride};
  for (const std::vector<int>& groups : members)
    larger.of_group.push_back(TreeOrder(tree, nodes_of(in_order(groups))).roots);
  return larger;
}

std::vector<Range> nodes_of(std::span<const ShardSources::Source> sources) {
  std::vector<Range> nodes;
  nodes.reserve(sources.size());
  for (const ShardSources::Source& source : sources) nodes.push_back(source.node);
  return nodes;
}

}  // namespace tasuki
