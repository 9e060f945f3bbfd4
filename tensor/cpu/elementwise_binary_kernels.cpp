// Functions of two and three values (elementwise_kernels.hpp).
#include <cmath>

#include "core/error.hpp"
#include "tensor/cpu/elementwise_kernels.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Macros, because a function that is compiled for several processors cannot be a template.
#define TASUKI_BINARY(name, expression)                                       \
  TASUKI_VECTORIZE void name(const float* left, const float* right, float* y, \
                             std::int64_t count) {                            \
    for (std::int64_t i = 0; i < count; ++i) {                                \
      const float a = left[i], b = right[i];                                  \
      y[i] = expression;                                                      \
    }                                                                         \
  }
#define TASUKI_TERNARY(name, expression)                                                  \
  TASUKI_VECTORIZE void name(const float* first, const float* second, const float* third, \
                             float* y, std::int64_t count) {                              \
    for (std::int64_t i = 0; i < count; ++i) {                                            \
      const float a = first[i], b = second[i], c = third[i];                              \
      y[i] = expression;                                                                  \
    }                                                                                     \
  }

// clang-format off: it takes products for declarations of pointers.
TASUKI_BINARY(add, a + b)
TASUKI_BINARY(subtract, a - b)
TASUKI_BINARY(multiply, a* b)
TASUKI_BINARY(divide, a / b)
TASUKI_BINARY(maximum, (a > b || a != a) ? a : b)
TASUKI_BINARY(minimum, (a < b || a != a) ? a : b)
TASUKI_BINARY(power, std::pow(a, b))
TASUKI_BINARY(equal, a == b ? 1.0f : 0.0f)
TASUKI_BINARY(greater, a > b ? 1.0f : 0.0f)
TASUKI_BINARY(greater_equal, a >= b ? 1.0f : 0.0f)

TASUKI_TERNARY(select, a != 0.0f ? b : c)
TASUKI_TERNARY(if_greater_equal, a >= b ? c : 0.0f)
TASUKI_TERNARY(unless_greater_equal, a >= b ? 0.0f : c)
TASUKI_TERNARY(if_equal, (a == b || (a != a && b != b)) ? c : 0.0f)
// b^2 would overflow where the gradient does not.
TASUKI_TERNARY(divisor_gradient, -c*((a / b) / b))
TASUKI_TERNARY(base_gradient, b == 0.0f ? 0.0f : c * b * std::pow(a, b - 1.0f))
// 0 where a = 0 and b > 0: the limit of a^b log(a).
TASUKI_TERNARY(exponent_gradient, a == 0.0f && b > 0.0f ? 0.0f : c * std::pow(a, b) * std::log(a))
// clang-format on

#undef TASUKI_BINARY
#undef TASUKI_TERNARY

}  // namespace

BinaryKernel binary_kernel(Binary f) {
  switch (f) {
    case Binary::add:
      return add;
    case Binary::subtract:
      return subtract;
    case Binary::multiply:
      return multiply;
    case Binary::divide:
      return divide;
    case Binary::maximum:
      return maximum;
    case Binary::minimum:
      return minimum;
    case Binary::power:
      return power;
    case Binary::equal:
      return equal;
    case Binary::greater:
      return greater;
    case Binary::greater_equal:
      return greater_equal;
  }
  fail(ErrorKind::internal, "unknown function of two values {}", static_cast<int>(f));
}

TernaryKernel ternary_kernel(Ternary f) {
  switch (f) {
    case Ternary::select:
      return select;
    case Ternary::if_greater_equal:
      return if_greater_equal;
    case Ternary::unless_greater_equal:
      return unless_greater_equal;
    case Ternary::if_equal:
      return if_equal;
    case Ternary::divisor_gradient:
      return divisor_gradient;
    case Ternary::base_gradient:
      return base_gradient;
    case Ternary::exponent_gradient:
      return exponent_gradient;
  }
  fail(ErrorKind::internal, "unknown function of three values {}", static_cast<int>(f));
}

}  // namespace tasuki
