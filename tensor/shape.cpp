#include "tensor/shape.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace tasuki {

Shape::Shape(std::initializer_list<std::int64_t> sizes) {
  set({sizes.begin(), sizes.size()});
}
Shape::Shape(std::span<const std::int64_t> sizes) {
  set(sizes);
}

void Shape::set(std::span<const std::int64_t> sizes) {
  TASUKI_CHECK(sizes.size() <= max_rank,
               "a tensor of {} axes was asked for, at most {} are possible", sizes.size(),
               max_rank);
  for (const std::int64_t size : sizes)
    TASUKI_CHECK(size >= 0, "an axis of a tensor has the negative size {}", size);
  std::ranges::copy(sizes, sizes_.begin());
  rank_ = static_cast<int>(sizes.size());
}

std::int64_t Shape::count() const {
  std::int64_t product = 1;
  for (const std::int64_t size : *this) product *= size;
  return product;
}

std::int64_t Shape::count_per_item() const {
  std::int64_t product = 1;
  for (int axis = 1; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

Shape Shape::with_items(std::int64_t items) const {
  TASUKI_CHECK(rank_ > 0, "a scalar has no axis 0 to replace");
  Shape other = *this;
  other[0] = items;
  return other;
}

std::string Shape::text() const {
  if (rank_ == 0) return "scalar";
  std::string text;
  for (const std::int64_t size : *this) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace tasuki
