// Range: a half-open interval of integers: elements, positions or items.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/error.hpp"

namespace tasuki {

// [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `i` of [0, n) divided into `parts`: disjoint, in order, the first n % parts longer by one.
inline Range part_of(std::int64_t n, std::int64_t parts, std::int64_t i) {
  TASUKI_CHECK(n >= 0 && parts > 0 && 0 <= i && i < parts, "part {} of {} of {} items", i, parts,
               n);
  const std::int64_t size = n / parts, longer = n % parts;
  const std::int64_t begin = i * size + std::min(i, longer);
  return {begin, begin + size + (i < longer ? 1 : 0)};
}

}  // namespace tasuki
