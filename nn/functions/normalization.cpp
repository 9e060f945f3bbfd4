#include "nn/functions/normalization.hpp"

#include "nn/functions/gamma_beta.hpp"
#include "tensor/backend.hpp"
#include "tensor/normalization_operations.hpp"

namespace tasuki {
namespace {

class Normalization final : public Function {
 public:
  Normalization(const char* name, const NormRows& rows, Tensor x, Tensor gamma, Tensor statistics)
      : name_(name),
        rows_(rows),
        x_(std::move(x)),
        gamma_(std::move(gamma)),
        statistics_(std::move(statistics)) {}
  const char* name() const override { return name_; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const GammaBetaGradients to = gamma_beta_gradients(gradients, gamma_);
    Tensor dx = backend(dy.device())
                    .normalization()
                    .normalize_gradient(x_, rows_, statistics_, dy, gamma_, to.gamma, to.beta,
                                        to.accumulate);
    if (gradients.needed(0)) gradients.add(0, std::move(dx));
  }

 private:
  const char* name_;
  NormRows rows_;
  Tensor x_, gamma_, statistics_;
};

Variable normalized(const char* name, const NormRows& rows, const Variable& x,
                    const Variable& gamma, const Variable& beta, float eps) {
  NormResult forward = backend(x.value().device())
                           .normalization()
                           .normalize(x.value(), rows, gamma.value(), beta.value(), eps);
  return Function::record(std::move(forward.y), {x, gamma, beta}, [&] {
    return std::make_unique<Normalization>(name, rows, x.value(), gamma.value(),
                                           std::move(forward.statistics));
  });
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, float eps) {
  const std::int64_t length = gamma.value().count();
  // How many of the last axes make a row.
  std::int64_t last = 1;
  for (int axis = x.shape().rank() - 1; axis >= 0 && last < length; --axis) last *= x.shape()[axis];
  TASUKI_CHECK(x.shape().rank() > 0 && length > 0 && last == length,
               "layer_norm: the last axes of {} do not have the {} elements of gamma",
               x.shape().text(), length);
  return normalized("layer_norm", {.items = x.value().count() / length, .channels = length}, x,
                    gamma, beta, eps);
}

Variable group_norm(const Variable& x, std::int64_t groups, const Variable& gamma,
                    const Variable& beta, float eps) {
  const Shape& shape = x.shape();
  TASUKI_CHECK(shape.rank() >= 2 && groups > 0 && shape[1] > 0 && shape[1] % groups == 0,
               "group_norm: {} (N x C x ...) cannot be divided into {} groups of channels",
               shape.text(), groups);
  return normalized("group_norm",
                    {.items = shape[0],
                     .groups = groups,
                     .channels = shape[1] / groups,
                     .pixels = shape.count_per_item() / shape[1]},
                    x, gamma, beta, eps);
}

}  // namespace tasuki
