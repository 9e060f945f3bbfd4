#include "communicator/algorithms/wire_format.hpp"

#include <algorithm>
#include <cmath>

namespace tasuki {

WireFormat wire_format(DType dtype, int ranks, double terms) {
  if (dtype != DType::float16) return {dtype, 1};
  constexpr int smallest = 14;
  const double most = std::max<double>(ranks, terms);
  const int exponent = static_cast<int>(std::ceil(std::log2(std::max(1.0, most))));
  return {dtype, std::ldexp(1.0f, -std::min(exponent, smallest))};
}

Wire Wire::from(std::int64_t element) const {
  Wire part = *this;
  part.exact_from = std::max<std::int64_t>(0, exact_from - element);
  if (residual != nullptr) part.residual = residual + element;
  return part;
}

}  // namespace tasuki
