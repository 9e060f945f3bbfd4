// Values that a test and a Python script compute in the same way.
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki::testing {

// scattered() of make_chainer_models.py: values in [-scale, scale) without an apparent order.
inline void scatter_values(const Tensor& tensor, double scale) {
  std::uint64_t position = 0;
  for (float& value : tensor.span<float>()) {
    std::uint64_t hash = ++position;
    for (const auto& [factor, shift] :
         {std::pair(2654435761u, 15), {2246822519u, 13}, {3266489917u, 16}}) {
      hash = hash * factor % (std::uint64_t{1} << 32);
      hash ^= hash >> shift;
    }
    value = static_cast<float>((static_cast<double>(hash) / 2147483648.0 - 1) * scale);
  }
}

}  // namespace tasuki::testing
