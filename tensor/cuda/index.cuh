// The numbers by which kernels find elements. In a loop, dividing 32 bits is a few multiplications;
// 64 bits take a branch, and a call for large numbers.
#pragma once

#include <cstdint>
#include <limits>

namespace tasuki::kernels {

// visitor(Index{}) with the smallest type that can number `count` elements.
template <class Visitor>
void with_index(std::int64_t count, Visitor&& visitor) {
  if (count <= std::numeric_limits<std::uint32_t>::max())
    visitor(std::uint32_t{});
  else
    visitor(std::int64_t{});
}

}  // namespace tasuki::kernels
