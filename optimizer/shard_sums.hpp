// ShardSums: adds what the shards of a rank have computed, in the order of the tree of all shards
// (communicator/algorithms/shard_tree.hpp). Optimizer::begin_shard says how a step is divided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "optimizer/arena_slices.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// The arrays of one step. A shard writes its values into next(); then add() says so. Sums that are
// complete wait for their sibling, at most as many as the tree is high, so few arrays are needed.
// All arrays are one-dimensional, of float32, in the memory of a CPU.
class ShardSums {
 public:
  struct Sum {
    Range node;
    Tensor array;  // undefined: no shard of the node has values
  };

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
  // its values were -0, which changes no number. `elements`: those that are added, in order; null:
  // all. What sums have elsewhere means nothing.
  void add(bool has_values, const std::vector<Range>* elements = nullptr);
  // In place of add(true) for the last shard, whose values are final part by part: begin_parts()
  // before the first one, add_part() for elements [begin, end), each element once, and end_parts()
  // after the last one. Between, all other sums are final; `clear` as in finish().
  using Clear = std::function<void(const Tensor& root)>;
  void begin_parts(const Clear& clear);
  void add_part(std::int64_t begin, std::int64_t end) const;
  void end_parts() { next_array_ = {}; }
  // The sums of the shards so far, in their order: each is a root's or waits for its sibling.
  const std::vector<Sum>& sums() const { return sums_; }
  // After begin_parts(): sums() as it was without the last shard.
  const std::vector<Sum>& sums_before_last() const { return before_last_; }
  // After the last shard: roots without values become -0 (`clear`: on elements that count).
  void finish(const Clear& clear);

 private:
  // Arrays whose sum belongs into the first one: a + (b + (c + d)).
  std::vector<Tensor> push(bool has_values);
  void check_and_clear(const Clear& clear);
  std::size_t root_of(std::int64_t shard) const;

  ShardTree tree_;
  std::vector<Range> roots_;
  std::function<Tensor(std::size_t)> result_;
  std::int64_t count_;
  std::int64_t next_ = 0;
  Tensor next_array_;
  std::vector<Sum> sums_, before_last_;
  std::vector<Tensor> spares_;  // arrays that are not results
  std::vector<Tensor> last_;    // that add_part() adds
};

// The same for shards that are divided among threads: each thread adds up its own ones, and what
// the threads have is added at the end of a step.
class ThreadSums {
 public:
  // As for ShardSums. There are at least as many shards as threads; thread i has the i-th part of
  // them (part_of()).
  ThreadSums(ShardTree tree, std::vector<Range> roots, std::function<Tensor(std::size_t)> result,
             std::int64_t count, std::size_t threads);

  Range shards() const { return {roots_.front().begin, roots_.back().end}; }
  std::size_t thread_of(std::int64_t shard) const;
  // Whether any thread has added anything since begin().
  bool has_begun() const;
  // What a thread has; each thread works with its own.
  ShardSums& of(std::size_t thread) { return *threads_.at(thread); }
  const ShardSums& of(std::size_t thread) const { return *threads_.at(thread); }

  // In one thread, before and after the others work.
  void begin();
  // As ShardSums::finish() of all threads; then adds their sums, in parts of the arrays that
  // `spread` divides among threads.
  void finish(const std::function<void(const Tensor& root)>& clear, const SpreadUpdate& spread);

 private:
  Tensor array_of(std::size_t thread, std::size_t root);

  ShardTree tree_;
  std::vector<Range> roots_;
  std::function<Tensor(std::size_t)> result_;
  std::int64_t count_;
  std::vector<std::vector<Range>> roots_of_threads_;
  std::vector<std::vector<Tensor>> own_;  // of each thread, for roots that begin inside a root
  std::vector<std::unique_ptr<ShardSums>> threads_;
};

// How many arrays ShardSums uses beside those of the roots, if all shards have values.
std::size_t spare_arrays(const ShardTree& tree, std::span<const Range> roots);
// The same for ThreadSums, with the arrays of further roots.
std::size_t spare_arrays(const ShardTree& tree, std::span<const Range> roots, std::size_t threads);

}  // namespace tasuki
