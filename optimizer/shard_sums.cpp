#include "optimizer/shard_sums.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"
#include "tensor/parallel.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {

ShardSums::ShardSums(ShardTree tree, std::vector<Range> roots,
                     std::function<Tensor(std::size_t)> result, std::int64_t count)
    : tree_(tree), roots_(std::move(roots)), result_(std::move(result)), count_(count) {
  begin();
}

void ShardSums::begin() {
  sums_.clear();
  next_ = shards().begin;
  next_array_ = {};
}

std::size_t ShardSums::root_of(std::int64_t shard) const {
  const auto root =
      std::ranges::find_if(roots_, [shard](const Range& each) { return shard < each.end; });
  return static_cast<std::size_t>(root - roots_.begin());
}

// The first values of a root are written where its sum belongs, because sums are in the array of
// their first part.
Tensor ShardSums::next() {
  if (next_array_) return next_array_;
  const std::size_t root = root_of(next_);
  TASUKI_CHECK(root < roots_.size(), "more than {} shards in a step", shards().size());
  const Tensor result = result_(root);
  const auto is_used = [this](const Tensor& array) {
    return std::ranges::any_of(
        sums_, [&](const Sum& sum) { return sum.array && sum.array.raw() == array.raw(); });
  };
  if (!is_used(result)) return next_array_ = result;
  const auto spare = std::ranges::find_if_not(spares_, is_used);
  if (spare != spares_.end()) return next_array_ = *spare;
  spares_.push_back(Tensor::zeros(result.shape()));
  return next_array_ = spares_.back();
}

// a + (b + (c + d)) in one pass over memory.
void ShardSums::add(bool has_values) {
  Sum sum{{next_, next_ + 1}, has_values ? next() : Tensor()};
  std::vector<Tensor> parts;
  if (has_values) parts.push_back(sum.array);
  while (!sums_.empty() && tree_.are_siblings(sums_.back().node, sum.node)) {
    sum.node.begin = sums_.back().node.begin;
    if (sums_.back().array) parts.insert(parts.begin(), sums_.back().array);
    sums_.pop_back();
  }
  if (!parts.empty()) sum.array = parts.front();
  if (parts.size() > 1) {
    std::vector<int> merges(parts.size(), 0);
    merges.back() = static_cast<int>(parts.size()) - 1;
    constexpr std::int64_t grain = std::int64_t{1} << 15;  // elements
    parallel_for(count_, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<const float*> sources;
      sources.reserve(parts.size());
      for (const Tensor& part : parts) sources.push_back(part.data<float>() + begin);
      const std::array<std::vector<float*>, 1> result{{{sum.array.data<float>() + begin}}};
      sum_in_tree(sources, merges, result, end - begin);
    });
  }
  sums_.push_back(std::move(sum));
  ++next_;
  next_array_ = {};
}

void ShardSums::finish(const std::function<void(const Tensor& root)>& clear) {
  TASUKI_CHECK(next_ == shards().end && sums_.size() == roots_.size(), "{} of {} shards in a step",
               next_ - shards().begin, shards().size());
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    const Tensor result = result_(i);
    if (!sums_[i].array)
      clear(result);
    else
      TASUKI_CHECK(sums_[i].array.raw() == result.raw(), "root {} of the shards is elsewhere", i);
  }
  begin();
}

std::size_t spare_arrays(const ShardTree& tree, std::span<const Range> roots) {
  std::size_t most = 0;
  for (const Range& root : roots) {
    std::size_t waiting = 0;
    // The number of complete sums before each shard of the root.
    for (std::int64_t shard = root.begin; shard < root.end; ++shard)
      waiting = std::max(waiting, tree.roots_of({root.begin, shard}).size());
    most = std::max(most, waiting);
  }
  return most;
}

}  // namespace tasuki
