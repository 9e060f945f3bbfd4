// Range: a half-open interval of integers: elements, positions or items.
#pragma once

#include <cstdint>

namespace tasuki {

// [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `i` of [0, n) divided into `parts`: disjoint, in order, the first n % parts longer by one.
Range part_of(std::int64_t n, std::int64_t parts, std::int64_t i);

}  // namespace tasuki
