// Sizes of a tensor's axes, slowest first.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tasuki {

// Up to six axes; no axis means a scalar (one element). An axis may be 0.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return sizes_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }

  // Number of elements.
  std::int64_t count() const;
  // Elements of one item along axis 0 (1 for vectors).
  std::int64_t count_per_item() const;
  // This shape with axis 0 replaced.
  Shape with_items(std::int64_t items) const;
  // "100x1x28x28"; "scalar" without axes.
  std::string text() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  void set(std::span<const std::int64_t> sizes);

  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

}  // namespace tasuki
