// The CPU backend, tensors with deterministic values, and how far two are apart.
#pragma once

#include <vector>

#include "tensor/backend.hpp"
#include "tensor/tensor.hpp"

namespace tasuki::testing {

inline Backend& cpu() {
  return backend(Device::cpu());
}
// Uniform in [-1, 1).
Tensor random_tensor(const Shape& shape, std::uint64_t seed);
// Values in plain order.
std::vector<float> values_of(const Tensor& tensor);
// Largest |a - b| over the largest |b|; infinite where one is not a number.
float distance(const Tensor& a, const Tensor& b);

}  // namespace tasuki::testing
