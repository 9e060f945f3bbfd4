#include "tasuki/nn/functions/dropout.hpp"

#include <numeric>

#include "tasuki/nn/function.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

// The mask is drawn again rather than kept.
class Dropout final : public Function {
 public:
  Dropout(float ratio, Tensor seed, Tensor example_ids)
      : ratio_(ratio), seed_(std::move(seed)), example_ids_(std::move(example_ids)) {}
  const char* name() const override { return "dropout"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).dropout(dy, ratio_, seed_, example_ids_));
  }

 private:
  float ratio_;
  Tensor seed_, example_ids_;
};

// The seed of the next random function in this forward pass.
Tensor next_seed(Device device) {
  const RandomContext& context = random_context();
  const auto call = static_cast<std::int64_t>(random_calls()++);
  if (context.device_seeds && call < context.device_seeds.count())
    return context.device_seeds.slice(call, call + 1);
  const auto bits = static_cast<std::int64_t>(
      random_seed(context.seed, context.epoch, static_cast<std::uint64_t>(call)));
  return Tensor::from(std::span(&bits, 1), {1}).to(device);
}

Tensor ids_of_batch(std::int64_t examples, Device device) {
  const RandomContext& context = random_context();
  if (context.device_ids) return context.device_ids;
  if (!context.example_ids.empty())
    return Tensor::from(context.example_ids, {std::ssize(context.example_ids)}).to(device);
  const Tensor ids = Tensor::empty({examples}, DType::int64);
  std::iota(ids.data<std::int64_t>(), ids.data<std::int64_t>() + examples, std::int64_t{0});
  return ids.to(device);
}

}  // namespace

Variable dropout(const Variable& x, float ratio) {
  TASUKI_CHECK(0 <= ratio && ratio < 1, "dropout: the ratio {} is not in [0, 1)", ratio);
  TASUKI_CHECK(x.shape().rank() >= 1, "dropout: a scalar has no axis of examples");
  if (!TrainingMode::is_training() || ratio == 0) return x;
  const Device device = x.value().device();
  Tensor seed = next_seed(device), ids = ids_of_batch(x.shape()[0], device);
  Tensor y = backend(device).dropout(x.value(), ratio, seed, ids);
  return Function::record(std::move(y), {x}, [&] {
    return std::make_unique<Dropout>(ratio, std::move(seed), std::move(ids));
  });
}

}  // namespace tasuki
