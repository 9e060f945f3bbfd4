#include "nn/functions/dropout.hpp"

#include <utility>

#include "nn/function.hpp"
#include "nn/random.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
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

}  // namespace tasuki
