// ProductSums: gradients of weights that are matrix products, added up by shards while they are
// computed.
//
// A shard with few examples spends less time on the product for a large matrix of weights than on
// writing it to memory and adding it to other shards' gradients. So the products' operands are
// kept, and all shards' products are computed at the end of the step, tile by tile, where their
// sums stay in registers (multiply_in_tree()). Products have the same bits whenever they are
// computed, and which are computed in this way depends on a shard alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "nn/late_products.hpp"
#include "optimizer/arena.hpp"
#include "optimizer/shard_sums.hpp"

namespace tasuki {

// Of one thread's shards. Its sums (ShardSums) have the other gradients.
class ProductSums final : public LateProducts {
 public:
  // `entries`: of the thread's model, whose parameters outlive this object. `most_bytes`: of
  // operands; further products are computed at once.
  ProductSums(ShardTree tree, const std::vector<ParameterArena::Entry>& entries,
              std::size_t most_bytes);
  ~ProductSums() override { clear(); }

  // Forgets the step.
  void clear();
  void begin_shard(std::int64_t shard) { shard_ = shard; }
  bool take(const std::shared_ptr<detail::Node>& leaf, const Tensor& dy, const Tensor& x) override;
  void write(detail::Node& leaf) override;
  void drop(detail::Node& leaf) override;

  // The shard has examples, and all its gradients are complete; `sums` does not have it yet.
  // Returns the elements that `sums` is to add up, out of `count`. It leaves out parameters of
  // which a product was kept in each shard with examples so far. If this shard is the first one
  // without a product, the sums of the products before are written to `sums`.
  std::vector<Range> end_shard(const ShardSums& sums, std::int64_t count);
  // The same for one parameter, between ShardSums::begin_parts() and end_parts(). Returns whether
  // add_part() is to add it; otherwise its sums are final.
  bool finish_part(const ParameterArena::Entry& entry, const ShardSums& sums);
  // After the last shard: writes the sums of products to `sums`.
  void finish(const ShardSums& sums);

 private:
  struct Operands {
    std::int64_t shard;
    Tensor dy, x;
  };
  // A parameter in this step.
  struct Gradient {
    Range elements;                           // in the sums' arrays
    std::shared_ptr<detail::Node> leaf = {};  // set with the first product
    std::vector<Operands> products = {};      // one of each shard with examples, while is_late
    bool is_late = true;                      // false: its sums are in memory
    bool is_kept = false;                     // the product of the shard under way is the last one
  };
  // Moves sums to memory if the shard under way has no product.
  void settle(Gradient& gradient, const std::vector<ShardSums::Sum>& sums_before);
  void write_sums(const Gradient& gradient, const std::vector<ShardSums::Sum>& sums) const;
  void drop_products(Gradient& gradient);
  void drop_last(Gradient& gradient);
  static void multiply(const Tensor& dy, const Tensor& x, const Tensor& result);

  ShardTree tree_;
  std::unordered_map<const Parameter*, Gradient> gradients_;
  std::int64_t shard_ = 0;
  std::size_t most_bytes_, bytes_ = 0;  // of operands
};

// The most memory that sums of shards take beside the arrays of `roots`, on a rank with so many
// threads: arrays of ShardSums, and operands if there are parameters with late products. In units
// of the arena's array of gradients.
std::size_t further_arrays(const ParameterArena& arena, std::span<const Range> roots,
                           std::size_t threads);

}  // namespace tasuki
