// ShardSums: adds what the shards of a rank have computed, in the order of the tree of all shards
// (communicator/algorithms/shard_tree.hpp). Optimizer::begin_shard says how a step is divided.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// The arrays of one step. A shard writes its values into next(); then add() says so. Sums that are
// complete wait for their sibling, at most as many as the tree is high, so few arrays are needed.
// All arrays are one-dimensional, of float32, in the memory of a CPU.
class ShardSums {
 public:
  // `roots`: the nodes that this rank brings, in order. `result`: the array of root i. `count`: the
  // number of elements of an array that are added, from its first.
  ShardSums(ShardTree tree, std::vector<Range> roots, std::function<Tensor(std::size_t)> result,
            std::int64_t count);

  // The shards of this rank.
  Range shards() const { return {roots_.front().begin, roots_.back().end}; }
  // Forgets the last step.
  void begin();
  // The next shard, and where its values belong.
  std::int64_t next_shard() const { return next_; }
  Tensor next();
  // The next shard has written its values, or has none. Then its sum is that of the others, as if
  // its values were -0, which changes no number.
  void add(bool has_values);
  // After the last shard: roots without values become -0 (`clear`: on elements that count).
  void finish(const std::function<void(const Tensor& root)>& clear);

 private:
  struct Sum {
    Range node;
    Tensor array;  // undefined: no shard of the node has values
  };
  std::size_t root_of(std::int64_t shard) const;

  ShardTree tree_;
  std::vector<Range> roots_;
  std::function<Tensor(std::size_t)> result_;
  std::int64_t count_;
  std::int64_t next_ = 0;
  Tensor next_array_;
  std::vector<Sum> sums_;       // in the order of the shards; what has no sibling yet, and roots
  std::vector<Tensor> spares_;  // arrays that are not results
};

// How many arrays ShardSums uses beside those of the roots, if all shards have values.
std::size_t spare_arrays(const ShardTree& tree, std::span<const Range> roots);

}  // namespace tasuki
