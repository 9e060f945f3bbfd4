#include "tasuki/nn/functions/dropout.hpp"

#include <array>
#include <numeric>

#include "tasuki/core/philox.hpp"
#include "tasuki/nn/function.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

// The mask is drawn again rather than kept.
class Dropout final : public Function {
 public:
  Dropout(float ratio, std::uint64_t seed, std::vector<std::int64_t> example_ids)
      : ratio_(ratio), seed_(seed), example_ids_(std::move(example_ids)) {}
  const char* name() const override { return "dropout"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).dropout(dy, ratio_, seed_, example_ids_));
  }

 private:
  float ratio_;
  std::uint64_t seed_;
  std::vector<std::int64_t> example_ids_;
};

}  // namespace

Variable dropout(const Variable& x, float ratio) {
  TASUKI_CHECK(0 <= ratio && ratio < 1, "dropout: the ratio {} is not in [0, 1)", ratio);
  TASUKI_CHECK(x.shape().rank() >= 1, "dropout: a scalar has no axis of examples");
  if (!TrainingMode::is_training() || ratio == 0) return x;
  RandomContext& context = random_context();
  const std::uint64_t seed =
      mix(std::array{context.seed, static_cast<std::uint64_t>(context.epoch), context.calls++});
  std::vector<std::int64_t> ids(context.example_ids.begin(), context.example_ids.end());
  if (ids.empty()) {
    ids.resize(static_cast<std::size_t>(x.shape()[0]));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  Tensor y = backend(x.value().device()).dropout(x.value(), ratio, seed, ids);
  return Function::record(std::move(y), {x},
                          [&] { return std::make_unique<Dropout>(ratio, seed, std::move(ids)); });
}

}  // namespace tasuki
