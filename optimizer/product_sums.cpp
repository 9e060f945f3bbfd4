#include "optimizer/product_sums.hpp"

#include <algorithm>
#include <utility>

#include "nn/node.hpp"
#include "tensor/tree_product.hpp"

namespace tasuki {
namespace {

// Numbers of rows up to which products for at least so many elements are late: longer products hide
// the time of additions, smaller ones stay in a cache.
constexpr std::int64_t most_rows = 128, fewest_elements = std::int64_t{1} << 16;

}  // namespace

ProductSums::ProductSums(ShardTree tree, const std::vector<ParameterArena::Entry>& entries,
                         std::size_t most_bytes)
    : tree_(tree), most_bytes_(most_bytes) {
  for (const ParameterArena::Entry& entry : entries)
    gradients_.emplace(entry.parameter,
                       Gradient{.elements = {entry.offset, entry.offset + entry.count}});
}

void ProductSums::clear() {
  for (auto& [parameter, gradient] : gradients_) {
    if (gradient.is_kept) gradient.leaf->late = nullptr;
    gradient = {.elements = gradient.elements};
  }
  bytes_ = 0;
}

// Whether a product is computed here must not depend on other shards, when it is computed may.
bool ProductSums::take(const std::shared_ptr<detail::Node>& leaf, const Tensor& dy,
                       const Tensor& x) {
  const auto found = gradients_.find(leaf->parameter);
  if (found == gradients_.end() || dy.shape()[0] > most_rows ||
      found->second.elements.size() < fewest_elements)
    return false;
  Gradient& gradient = found->second;
  const std::size_t bytes = dy.bytes() + x.bytes();
  if (!gradient.is_late || bytes_ + bytes > most_bytes_) {
    multiply(dy, x, leaf->grad);
    return true;
  }
  gradient.products.push_back({shard_, dy.clone(), x.clone()});
  bytes_ += bytes;
  gradient.leaf = leaf;
  gradient.is_kept = true;
  leaf->late = this;
  return true;
}

void ProductSums::multiply(const Tensor& dy, const Tensor& x, const Tensor& result) {
  multiply_in_tree({{{dy.data<float>(), x.data<float>(), dy.shape()[0], 0}}}, dy.shape()[1],
                   x.shape()[1], result.data<float>());
}

void ProductSums::write(detail::Node& leaf) {
  Gradient& gradient = gradients_.at(leaf.parameter);
  multiply(gradient.products.back().dy, gradient.products.back().x, leaf.grad);
  drop_last(gradient);
}

void ProductSums::drop(detail::Node& leaf) {
  drop_last(gradients_.at(leaf.parameter));
}

void ProductSums::drop_last(Gradient& gradient) {
  bytes_ -= gradient.products.back().dy.bytes() + gradient.products.back().x.bytes();
  gradient.products.pop_back();
  gradient.is_kept = false;
}

void ProductSums::drop_products(Gradient& gradient) {
  for (const Operands& product : gradient.products)
    bytes_ -= product.dy.bytes() + product.x.bytes();
  gradient.products.clear();
}

void ProductSums::settle(Gradient& gradient, const std::vector<ShardSums::Sum>& sums_before) {
  if (std::exchange(gradient.is_kept, false)) {
    gradient.leaf->late = nullptr;
  } else if (std::exchange(gradient.is_late, false)) {
    write_sums(gradient, sums_before);
    drop_products(gradient);
  }
}

std::vector<Range> ProductSums::end_shard(const ShardSums& sums, std::int64_t count) {
  std::vector<Range> late;
  for (auto& [parameter, gradient] : gradients_) {
    settle(gradient, sums.sums());
    if (gradient.is_late) late.push_back(gradient.elements);
  }
  std::ranges::sort(late, {}, &Range::begin);
  std::vector<Range> added;
  std::int64_t begin = 0;
  late.push_back({count, count});
  for (const Range& range : late) {
    if (begin < range.begin) added.push_back({begin, range.begin});
    begin = range.end;
  }
  return added;
}

bool ProductSums::finish_part(const ParameterArena::Entry& entry, const ShardSums& sums) {
  Gradient& gradient = gradients_.at(entry.parameter);
  settle(gradient, sums.sums_before_last());
  if (!gradient.is_late) return true;
  write_sums(gradient, sums.sums());
  drop_products(gradient);
  return false;
}

void ProductSums::finish(const ShardSums& sums) {
  for (auto& [parameter, gradient] : gradients_) {
    write_sums(gradient, sums.sums());
    drop_products(gradient);
  }
}

void ProductSums::write_sums(const Gradient& gradient,
                             const std::vector<ShardSums::Sum>& sums) const {
  auto product = gradient.products.begin();
  for (const ShardSums::Sum& sum : sums) {
    const auto end = std::find_if(product, gradient.products.end(),
                                  [&](const Operands& each) { return each.shard >= sum.node.end; });
    if (product == end) continue;
    std::vector<std::int64_t> shards;
    for (auto each = product; each != end; ++each) shards.push_back(each->shard);
    const std::vector<int> merges = tree_.merges_within(sum.node, shards);
    const std::int64_t outputs = product->dy.shape()[1], inputs = product->x.shape()[1];
    std::vector<TreeProduct> products;
    for (std::size_t i = 0; product != end; ++product, ++i)
      products.push_back(
          {product->dy.data<float>(), product->x.data<float>(), product->dy.shape()[0], merges[i]});
    multiply_in_tree(products, outputs, inputs, sum.array.data<float>() + gradient.elements.begin);
  }
}

std::size_t further_arrays(const ParameterArena& arena, std::span<const Range> roots,
                           std::size_t threads) {
  const ShardTree& tree = arena.shards()->tree;
  std::size_t arrays = spare_arrays(tree, roots, threads);
  const bool may_be_late = std::ranges::any_of(arena.entries(), [](const auto& entry) {
    return entry.count >= fewest_elements && entry.parameter->shape().rank() == 2;
  });
  if (!may_be_late) return arrays;
  const std::int64_t begin = roots.front().begin, shards = roots.back().end - begin;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    const Range part =
        part_of(shards, static_cast<std::int64_t>(threads), static_cast<std::int64_t>(thread));
    arrays += spare_arrays(tree, tree.roots_of({begin + part.begin, begin + part.end}));
  }
  return arrays;
}

}  // namespace tasuki
