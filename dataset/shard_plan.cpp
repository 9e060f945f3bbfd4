#include "dataset/shard_plan.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/philox.hpp"

namespace tasuki {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// floor(n * i / parts), also if n * i does not fit into 64 bits; 0 <= i <= parts.
std::int64_t scaled(std::int64_t n, std::int64_t i, std::int64_t parts) {
  return n / parts * i + n % parts * i / parts;
}

}  // namespace

Range part_of(std::int64_t n, std::int64_t parts, std::int64_t i, bool equal_length) {
  TASUKI_CHECK(n >= 0 && parts > 0 && 0 <= i && i < parts, "part {} of {} of {} examples", i, parts,
               n);
  if (!equal_length) return part_of(n, parts, i);
  const std::int64_t begin = scaled(n, i, parts);
  return {begin, begin + ceil_div(n, parts)};
}

ShardPlan::ShardPlan(std::int64_t examples, int ranks, int shards, bool equal_length)
    : examples_(examples),
      ranks_(ranks),
      shards_(shards == 0 ? ranks : shards),
      equal_length_(equal_length) {
  TASUKI_CHECK(examples >= 0 && ranks > 0, "{} examples on {} ranks", examples, ranks);
  if (shards_ < 1 || shards_ % ranks_ != 0)
    fail_everywhere(
        ErrorKind::config,
        "{} shards cannot be shared equally by {} ranks; choose a multiple of the number of ranks",
        shards_, ranks_);
}

std::int64_t ShardPlan::share_size(int rank) const {
  const int first = first_shard(rank), last = first + shards_per_rank() - 1;
  if (equal_length_) return shards_per_rank() * shard(first).size();
  return shard(last).end - shard(first).begin;
}

std::int64_t ShardPlan::offset_in_share(int index) const {
  const int first = index - index % shards_per_rank();
  if (equal_length_) return (index - first) * shard(index).size();
  return shard(index).begin - shard(first).begin;
}

Range ShardPlan::shards_with(std::int64_t position) const {
  TASUKI_CHECK(0 <= position && position < examples_, "position {} of {}", position, examples_);
  // Both begins and ends of shards ascend: from the first shard that ends after the position to the
  // last that begins at or before it.
  const auto first_where = [this](auto holds) {
    int low = 0, high = shards_;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (holds(shard(middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  return {first_where([&](const Range& range) { return range.end > position; }),
          first_where([&](const Range& range) { return range.begin > position; })};
}

std::int64_t ShardPlan::dealt() const {
  return equal_length_ ? shard(0).size() * shards_ : examples_;
}

std::int64_t ShardPlan::dealt_after(std::int64_t steps, std::int64_t global_batch) const {
  return steps < steps_per_epoch(global_batch) ? steps * global_batch : dealt();
}

Range ShardPlan::shard_batch(int index, std::int64_t step, std::int64_t global_batch) const {
  const auto given_after = [&](std::int64_t steps) {
    return part_of(dealt_after(steps, global_batch), shards_, index).size();
  };
  return {given_after(step), given_after(step + 1)};
}

std::int64_t ShardPlan::steps_per_epoch(std::int64_t global_batch) const {
  if (global_batch < 1)
    fail_everywhere(ErrorKind::config, "expected a batch size of at least 1, found {}",
                    global_batch);
  return ceil_div(dealt(), global_batch);
}

std::int64_t ShardPlan::global_size(std::int64_t step, std::int64_t global_batch) const {
  return dealt_after(step + 1, global_batch) - dealt_after(step, global_batch);
}

DealingOrder::DealingOrder(std::int64_t n, bool shuffle, std::uint64_t seed) {
  if (shuffle) order_ = permutation(n, RandomStream(seed, hash_text("dealing order")));
}

std::vector<std::int64_t> DealingOrder::positions() const {
  std::vector<std::int64_t> result(order_.size());
  for (std::size_t position = 0; position < order_.size(); ++position)
    result[static_cast<std::size_t>(order_[position])] = static_cast<std::int64_t>(position);
  return result;
}

}  // namespace tasuki
