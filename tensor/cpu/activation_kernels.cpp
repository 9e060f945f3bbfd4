#include "tensor/cpu/activation_kernels.hpp"

#include "tensor/cpu/fast_math.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

// Choices are between values that are computed already, because a loop with a load or an operation
// under a condition is not vectorised.

TASUKI_VECTORIZE void relu_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

TASUKI_VECTORIZE void relu_backward_kernel(const float* y, const float* dy, float* dx,
                                           std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float upstream = dy[i];
    dx[i] = y[i] <= 0 ? 0 : upstream;
  }
}

TASUKI_VECTORIZE void leaky_relu_kernel(const float* x, float* y, float slope, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * (x[i] > 0 ? 1.0f : slope);
}

TASUKI_VECTORIZE void leaky_relu_backward_kernel(const float* y, const float* dy, float* dx,
                                                 float slope, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (y[i] > 0 ? 1.0f : slope);
}

TASUKI_VECTORIZE void sigmoid_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = fast_sigmoid(x[i]);
}

TASUKI_VECTORIZE void sigmoid_backward_kernel(const float* y, const float* dy, float* dx,
                                              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

TASUKI_VECTORIZE void tanh_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = fast_tanh(x[i]);
}

TASUKI_VECTORIZE void tanh_backward_kernel(const float* y, const float* dy, float* dx,
                                           std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

}  // namespace tasuki
