#include "optimizer/shard_sums.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"
#include "tensor/parallel.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {
namespace {

// Writes the sum of elements [begin, end) of all arrays into the first one.
void sum_into_first(const std::vector<Tensor>& arrays, std::span<const int> merges,
                    std::int64_t begin, std::int64_t end) {
  std::vector<const float*> sources;
  sources.reserve(arrays.size());
  for (const Tensor& array : arrays) sources.push_back(array.data<float>() + begin);
  const std::array<std::vector<float*>, 1> result{{{arrays.front().data<float>() + begin}}};
  sum_in_tree(sources, merges, result, end - begin);
}

// Of sum_in_tree(), for a + (b + (c + d)).
std::vector<int> nested(std::size_t arrays) {
  std::vector<int> merges(arrays, 0);
  merges.back() = static_cast<int>(arrays) - 1;
  return merges;
}

// Roots of the shards of thread `i`.
std::vector<Range> roots_of_thread(const ShardTree& tree, std::span<const Range> roots,
                                   std::size_t threads, std::size_t i) {
  const Range all{roots.front().begin, roots.back().end};
  const Range part =
      part_of(all.size(), static_cast<std::int64_t>(threads), static_cast<std::int64_t>(i));
  return tree.roots_of({all.begin + part.begin, all.begin + part.end});
}

}  // namespace

ShardSums::ShardSums(ShardTree tree, std::vector<Range> roots,
                     std::function<Tensor(std::size_t)> result, std::int64_t count)
    : tree_(tree), roots_(std::move(roots)), result_(std::move(result)), count_(count) {
  begin();
}

void ShardSums::begin() {
  sums_.clear();
  before_last_.clear();
  last_.clear();
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

std::vector<Tensor> ShardSums::push(bool has_values) {
  Sum sum{{next_, next_ + 1}, has_values ? next() : Tensor()};
  std::vector<Tensor> parts;
  if (has_values) parts.push_back(sum.array);
  while (!sums_.empty() && tree_.are_siblings(sums_.back().node, sum.node)) {
    sum.node.begin = sums_.back().node.begin;
    if (sums_.back().array) parts.insert(parts.begin(), sums_.back().array);
    sums_.pop_back();
  }
  if (!parts.empty()) sum.array = parts.front();
  sums_.push_back(std::move(sum));
  ++next_;
  return parts;
}

// In one pass over memory.
void ShardSums::add(bool has_values, const std::vector<Range>* elements) {
  const std::vector<Tensor> parts = push(has_values);
  next_array_ = {};
  if (parts.size() < 2) return;
  const std::vector<int> merges = nested(parts.size());
  const std::vector<Range> all{{0, count_}};
  constexpr std::int64_t grain = std::int64_t{1} << 15;  // elements
  for (const Range& range : elements ? *elements : all)
    parallel_for(range.size(), grain, [&](std::int64_t begin, std::int64_t end) {
      sum_into_first(parts, merges, range.begin + begin, range.begin + end);
    });
}

void ShardSums::begin_parts(const Clear& clear) {
  before_last_ = sums_;
  last_ = push(true);
  check_and_clear(clear);
}

void ShardSums::add_part(std::int64_t begin, std::int64_t end) const {
  if (last_.size() > 1) sum_into_first(last_, nested(last_.size()), begin, end);
}

void ShardSums::check_and_clear(const Clear& clear) {
  TASUKI_CHECK(next_ == shards().end && sums_.size() == roots_.size(), "{} of {} shards in a step",
               next_ - shards().begin, shards().size());
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    const Tensor result = result_(i);
    if (sums_[i].array) {
      TASUKI_CHECK(sums_[i].array.raw() == result.raw(), "root {} of the shards is elsewhere", i);
      continue;
    }
    clear(result);
    sums_[i].array = result;
  }
}

void ShardSums::finish(const Clear& clear) {
  check_and_clear(clear);
  begin();
}

ThreadSums::ThreadSums(ShardTree tree, std::vector<Range> roots,
                       std::function<Tensor(std::size_t)> result, std::int64_t count,
                       std::size_t threads)
    : tree_(tree),
      roots_(std::move(roots)),
      result_(std::move(result)),
      count_(count),
      own_(threads) {
  TASUKI_CHECK(threads >= 1 && static_cast<std::int64_t>(threads) <= shards().size(),
               "{} threads for {} shards", threads, shards().size());
  for (std::size_t i = 0; i < threads; ++i) {
    const std::vector<Range>& of_thread =
        roots_of_threads_.emplace_back(roots_of_thread(tree_, roots_, threads, i));
    own_[i].resize(of_thread.size());
  }
  for (std::size_t i = 0; i < threads; ++i)
    threads_.push_back(std::make_unique<ShardSums>(
        tree_, roots_of_threads_[i], [this, i](std::size_t root) { return array_of(i, root); },
        count_));
}

// Sums are in the array of their first part.
Tensor ThreadSums::array_of(std::size_t thread, std::size_t root) {
  const auto whole =
      std::ranges::find(roots_, roots_of_threads_[thread][root].begin, &Range::begin);
  if (whole != roots_.end()) return result_(static_cast<std::size_t>(whole - roots_.begin()));
  Tensor& own = own_[thread][root];
  if (!own) own = Tensor::zeros(result_(0).shape());
  return own;
}

std::size_t ThreadSums::thread_of(std::int64_t shard) const {
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (shard < threads_[i]->shards().end) return i;
  fail(ErrorKind::internal, "shard {} of a rank with shards up to {}", shard, shards().end - 1);
}

bool ThreadSums::has_begun() const {
  return std::ranges::any_of(
      threads_, [](const auto& each) { return each->next_shard() != each->shards().begin; });
}

void ThreadSums::begin() {
  for (const auto& each : threads_) each->begin();
}

void ThreadSums::finish(const std::function<void(const Tensor& root)>& clear,
                        const SpreadUpdate& spread) {
  for (const auto& each : threads_) each->finish(clear);
  if (threads_.size() == 1) return;
  struct Sum {
    std::vector<Tensor> arrays;
    std::vector<int> merges;
  };
  std::vector<Sum> sums;
  for (const Range& whole : roots_) {
    Sum sum;
    std::vector<Range> nodes;
    for (std::size_t thread = 0; thread < threads_.size(); ++thread)
      for (std::size_t i = 0; i < roots_of_threads_[thread].size(); ++i) {
        const Range& node = roots_of_threads_[thread][i];
        if (node.begin < whole.begin || node.end > whole.end) continue;
        nodes.push_back(node);
        sum.arrays.push_back(array_of(thread, i));
      }
    sum.merges = TreeOrder(tree_, nodes).merges;
    if (nodes.size() > 1) sums.push_back(std::move(sum));
  }
  const auto add = [&sums](std::int64_t begin, std::int64_t end) {
    for (const Sum& sum : sums) sum_into_first(sum.arrays, sum.merges, begin, end);
  };
  if (spread)
    spread(add, count_);
  else
    add(0, count_);
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

std::size_t spare_arrays(const ShardTree& tree, std::span<const Range> roots, std::size_t threads) {
  std::size_t all = 0;
  for (std::size_t i = 0; i < threads; ++i) {
    const std::vector<Range> of_thread = roots_of_thread(tree, roots, threads, i);
    all += spare_arrays(tree, of_thread);
    for (const Range& root : of_thread)
      all += std::ranges::find(roots, root.begin, &Range::begin) == roots.end() ? 1 : 0;
  }
  return all;
}

}  // namespace tasuki
