#include "optimizer/arena_slices.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

std::vector<Range> arena_slices(std::int64_t count, int owners) {
  TASUKI_CHECK(count >= 0 && owners >= 1, "{} elements for {} owners", count, owners);
  const std::int64_t blocks = (count + norm_block - 1) / norm_block;
  std::vector<Range> slices;
  for (int owner = 0; owner < owners; ++owner) {
    const Range own = part_of(blocks, owners, owner);
    slices.push_back(
        {std::min(count, own.begin * norm_block), std::min(count, own.end * norm_block)});
  }
  return slices;
}

std::vector<Range> slices_of_groups(std::int64_t count, std::span<const std::int64_t> groups) {
  std::vector<Range> slices;
  for (std::size_t owner = 0; owner < groups.size(); ++owner) {
    const std::int64_t group = groups[owner];
    const auto number = std::ranges::count(groups.first(owner), group);
    const auto size = static_cast<int>(std::ranges::count(groups, group));
    slices.push_back(arena_slices(count, size)[static_cast<std::size_t>(number)]);
  }
  return slices;
}

SliceOwners::SliceOwners(std::int64_t count, Communicator& communicator, Needed needed)
    : slices_(arena_slices(count, communicator.size())),
      needed_(std::move(needed)),
      communicator_(&communicator) {}

Range SliceOwners::own() const {
  return slices_[communicator_ ? static_cast<std::size_t>(communicator_->rank()) : 0];
}

Range SliceOwners::summed() const {
  return needed_.empty() ? Range{0, slices_.back().end} : own();
}

void SliceOwners::share(const Tensor& array, bool once_per_node) const {
  if (communicator_) communicator_->share_parts(array, slices_, once_per_node);
}

void SliceOwners::share_numbers(const Tensor& numbers, std::span<const std::int64_t> begins,
                                std::int64_t per_part) const {
  if (!communicator_) return;
  const auto first_from = [&](std::int64_t element) {
    return (std::ranges::lower_bound(begins, element) - begins.begin()) * per_part;
  };
  std::vector<Range> of_rank;
  for (const Range& slice : slices_)
    of_rank.push_back({first_from(slice.begin), first_from(slice.end)});
  communicator_->share_parts(numbers, of_rank);
}

void SliceOwners::take_largest(const Tensor& flag) const {
  if (communicator_) communicator_->allreduce(flag, ReduceOp::max);
}

Tensor SliceOwners::gather(const Tensor& own_part, int root) const {
  if (!communicator_) return own_part;
  const std::vector<Tensor> parts = communicator_->gather(own_part, root);
  if (parts.empty()) return {};
  Tensor all = Tensor::empty({slices_.back().end}, own_part.dtype());
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    all.slice(slices_[rank].begin, slices_[rank].end).copy_from(parts[rank]);
  return all;
}

double SliceOwners::squared_norm(const Tensor& array) const {
  Backend& device = backend(array.device());
  if (!communicator_) return device.squared_norm(array);
  std::vector<std::int64_t> begins;
  for (std::int64_t begin = 0; begin < slices_.back().end; begin += norm_block)
    begins.push_back(begin);
  const Tensor sums = Tensor::zeros({std::ssize(begins)}, DType::float64);
  double* const of_block = sums.data<double>();
  const Range slice = own();
  parallel_for((slice.size() + norm_block - 1) / norm_block, elementwise_grain / norm_block,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t block = first; block < last; ++block) {
                   const std::int64_t begin = slice.begin + block * norm_block;
                   of_block[begin / norm_block] = device.squared_norm(
                       array.slice(begin, std::min(slice.end, begin + norm_block)));
                 }
               });
  share_numbers(sums, begins, 1);
  double sum = 0;
  for (const double part : sums.span<double>()) sum += part;
  return sum;
}

}  // namespace tasuki
