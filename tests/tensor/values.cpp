#include "values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/philox.hpp"

namespace tasuki::testing {

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Tensor made = Tensor::empty(shape);
  RandomStream stream(seed);
  for (float& value : made.span<float>()) value = 2 * stream.uniform() - 1;
  return made;
}

std::vector<float> values_of(const Tensor& tensor) {
  const Tensor plain = tensor.plain().to(DType::float32);
  return {plain.span<float>().begin(), plain.span<float>().end()};
}

float distance(const Tensor& a, const Tensor& b) {
  TASUKI_CHECK(a.shape() == b.shape(), "{} and {}", a.shape().text(), b.shape().text());
  const std::vector<float> left = values_of(a), right = values_of(b);
  float largest = 0, apart = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(right[i]));
    if (left[i] == right[i]) continue;  // infinite ones, too
    const float difference = std::abs(left[i] - right[i]);
    if (std::isnan(difference)) return std::numeric_limits<float>::infinity();
    apart = std::max(apart, difference);
  }
  return largest > 0 ? apart / largest : apart;
}

}  // namespace tasuki::testing
