// In place of the product's header of this name: with SIMULATED_CUDA_WIDE_INDICES set, kernels
// number small arrays, too, as they number those of 2^32 elements and more.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace tasuki::kernels {

template <class Visitor>
void with_index(std::int64_t count, Visitor&& visitor) {
  static const bool always_wide = std::getenv("SIMULATED_CUDA_WIDE_INDICES") != nullptr;
  if (count <= std::numeric_limits<std::uint32_t>::max() && !always_wide)
    visitor(std::uint32_t{});
  else
    visitor(std::int64_t{});
}

}  // namespace tasuki::kernels
