#include "tasuki/communicator/wire_format.hpp"

#include <algorithm>
#include <cmath>

#include "tasuki/core/error.hpp"

namespace tasuki {

WireFormat wire_format(DType dtype, int ranks, double divisor) {
  if (dtype != DType::float16) return {dtype, 1};
  constexpr int smallest = 14;
  const double terms = std::max<double>(ranks, divisor);
  const int exponent = static_cast<int>(std::ceil(std::log2(std::max(1.0, terms))));
  return {dtype, std::ldexp(1.0f, -std::min(exponent, smallest))};
}

DType wire_dtype(std::string_view name) {
  if (name == "fp32") return DType::float32;
  if (name == "fp16") return DType::float16;
  if (name == "bf16") return DType::bfloat16;
  fail_everywhere(ErrorKind::usage, "unknown wire dtype '{}'; known are fp32, fp16, bf16", name);
}

}  // namespace tasuki
