#include "nn/functions/math.hpp"

#include "nn/functions/mapped.hpp"

namespace tasuki {

Variable neg(const Variable& x) {
  return mapped("neg", Map::affine, x, -1, 0);
}

Variable exp(const Variable& x) {
  return mapped("exp", Map::exp, x);
}

Variable log(const Variable& x) {
  return mapped("log", Map::log, x);
}

Variable sqrt(const Variable& x) {
  return mapped("sqrt", Map::sqrt, x);
}

Variable pow(const Variable& x, float exponent) {
  return mapped("pow", Map::power, x, exponent);
}

Variable abs(const Variable& x) {
  return mapped("abs", Map::abs, x);
}

Variable clip(const Variable& x, float low, float high) {
  TASUKI_CHECK(low <= high, "clip: the lower limit {} is above the upper limit {}", low, high);
  return mapped("clip", Map::clip, x, low, high);
}

}  // namespace tasuki
