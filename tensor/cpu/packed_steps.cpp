#include "tensor/cpu/packed_steps.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tensor/parallel.hpp"

namespace tasuki {

PackedSteps::PackedSteps(const Tensor& lengths, std::int64_t steps, bool is_reversed)
    : is_reversed_(is_reversed), order_(static_cast<std::size_t>(lengths.count())) {
  const std::int64_t* const given = lengths.data<std::int64_t>();
  for (std::int64_t i = 0; i < lengths.count(); ++i)
    TASUKI_CHECK(0 <= given[i] && given[i] <= steps,
                 "recurrent layer: length {} of example {} is not in 0 .. {}", given[i], i, steps);
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, std::ranges::greater{},
                           [&](std::int64_t i) { return given[i]; });
  for (const std::int64_t i : order_) lengths_.push_back(given[i]);
  const std::int64_t longest = lengths_.empty() ? 0 : lengths_[0];
  std::int64_t active = items();
  for (std::int64_t step = 0; step < longest; ++step) {
    while (length(active - 1) <= step) --active;
    active_.push_back(active);
    first_.push_back(rows_);
    rows_ += active;
  }
}

template <class Copy>
void PackedSteps::for_rows(std::int64_t columns, const Copy& copy) const {
  const std::int64_t grain = elementwise_grain / std::max<std::int64_t>(columns, 1) + 1;
  for (std::int64_t step = 0; step < steps(); ++step)
    parallel_for(active(step), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j)
        copy(first_row(step) + j, example(j), element(j, step));
    });
}

Tensor PackedSteps::pack(const Tensor& x) const {
  const std::int64_t length = x.shape()[1], columns = x.shape()[2];
  Tensor packed = Tensor::empty({rows(), columns}, x.dtype());
  const std::int64_t bytes = columns * static_cast<std::int64_t>(size_of(x.dtype()));
  const auto* const from = static_cast<const std::byte*>(x.raw());
  auto* const to = static_cast<std::byte*>(packed.raw());
  for_rows(columns, [&](std::int64_t row, std::int64_t i, std::int64_t element) {
    std::copy_n(from + (i * length + element) * bytes, bytes, to + row * bytes);
  });
  return packed;
}

Tensor PackedSteps::unpack(const Tensor& packed, std::int64_t length) const {
  const std::int64_t columns = packed.shape()[1];
  const DType type = packed.dtype();
  const Shape shape{items(), length, columns};
  Tensor x = rows() == items() * length ? Tensor::empty(shape, type) : Tensor::zeros(shape, type);
  const std::int64_t bytes = columns * static_cast<std::int64_t>(size_of(type));
  const auto* const from = static_cast<const std::byte*>(packed.raw());
  auto* const to = static_cast<std::byte*>(x.raw());
  for_rows(columns, [&](std::int64_t row, std::int64_t i, std::int64_t element) {
    std::copy_n(from + row * bytes, bytes, to + (i * length + element) * bytes);
  });
  return x;
}

}  // namespace tasuki
