#include "nn/functions/normalization.hpp"

#include <utility>

#include "nn/function.hpp"
#include "nn/random.hpp"
#include "tensor/backend.hpp"
#include "tensor/image_operations.hpp"

namespace tasuki::functions {
namespace {

// The mask is drawn again instead of being kept.
class Dropout final : public Function {
 public:
  Dropout(float ratio, RandomKey key) : ratio_(ratio), key_(std::move(key)) {}
  const char* name() const override { return "dropout"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).dropout(dy, ratio_, key_.seed, key_.ids));
  }

 private:
  float ratio_;
  RandomKey key_;
};

class GaussianNoise final : public Function {
 public:
  const char* name() const override { return "gaussian_noise"; }
  void backward(const Tensor& dy, Gradients& gradients) override { gradients.add(0, dy); }
};

}  // namespace

Variable dropout(const Variable& x, float ratio) {
  TASUKI_CHECK(0 <= ratio && ratio < 1, "dropout: the ratio {} is not in [0, 1)", ratio);
  TASUKI_CHECK(x.shape().rank() >= 1, "dropout: a scalar has no axis of examples");
  if (!TrainingMode::is_training() || ratio == 0) return x;
  const Device device = x.value().device();
  RandomKey key = next_random_key(device, x.shape()[0]);
  Tensor y = backend(device).dropout(x.value(), ratio, key.seed, key.ids);
  return Function::record(std::move(y), {x},
                          [&] { return std::make_unique<Dropout>(ratio, std::move(key)); });
}

Variable gaussian_noise(const Variable& x, float sigma) {
  TASUKI_CHECK(sigma >= 0, "gaussian_noise: expected a sigma of at least 0, found {}", sigma);
  TASUKI_CHECK(x.shape().rank() >= 1, "gaussian_noise: a scalar has no axis of examples");
  if (!TrainingMode::is_training() || sigma == 0) return x;
  const Device device = x.value().device();
  const RandomKey key = next_random_key(device, x.shape()[0]);
  Tensor y = backend(device).images().add_noise(x.value(), Noise::normal, sigma, key.seed, key.ids);
  return Function::record(std::move(y), {x}, [] { return std::make_unique<GaussianNoise>(); });
}

Tensor uniform_noise(const Shape& shape, DType dtype, Device device) {
  TASUKI_CHECK(shape.rank() >= 1, "uniform_noise: a scalar has no axis of examples");
  const RandomKey key = next_random_key(device, shape[0]);
  return backend(device).images().add_noise(Tensor::zeros(shape, dtype, device), Noise::uniform, 1,
                                            key.seed, key.ids);
}

}  // namespace tasuki::functions
