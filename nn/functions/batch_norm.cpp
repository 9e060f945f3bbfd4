#include "nn/functions/batch_norm.hpp"

#include "nn/functions/gamma_beta.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

class BatchNormFunction final : public Function {
 public:
  BatchNormFunction(Tensor x, Tensor gamma, Tensor beta, BatchNormResult forward, float eps,
                    bool relu)
      : x_(std::move(x)),
        gamma_(std::move(gamma)),
        beta_(std::move(beta)),
        forward_(std::move(forward)),
        eps_(eps),
        relu_(relu) {}
  const char* name() const override { return "batch_norm"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    const GammaBetaGradients to = gamma_beta_gradients(gradients, gamma_);
    Tensor dx = device.batch_norm_backward(x_, forward_, dy, gamma_, beta_, eps_, relu_, to.gamma,
                                           to.beta, to.accumulate);
    if (gradients.needed(0)) gradients.add(0, std::move(dx));
  }

 private:
  Tensor x_, gamma_, beta_;
  BatchNormResult forward_;
  float eps_;
  bool relu_;
};

// An error, because gradients would silently stop here.
class FixedBatchNorm final : public Function {
 public:
  const char* name() const override { return "fixed_batch_norm"; }
  void backward(const Tensor&, Gradients&) override {
    fail(ErrorKind::internal,
         "batch normalisation with fixed statistics has no backward pass; was the forward pass run "
         "with TrainingMode(false)?");
  }
};

}  // namespace

Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, float eps,
                    bool relu, BatchStatistics* statistics) {
  BatchNormResult forward =
      backend(x.value().device()).batch_norm(x.value(), gamma.value(), beta.value(), eps, relu);
  if (statistics != nullptr) *statistics = {forward.mean, forward.variance};
  Tensor y = std::exchange(forward.y, {});  // the backward pass reads x, not y
  return Function::record(std::move(y), {x, gamma, beta}, [&] {
    return std::make_unique<BatchNormFunction>(x.value(), gamma.value(), beta.value(),
                                               std::move(forward), eps, relu);
  });
}

Variable fixed_batch_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                          const BatchStatistics& statistics, float eps, bool relu) {
  Tensor y = backend(x.value().device())
                 .batch_norm_inference(x.value(), gamma.value(), beta.value(), statistics.mean,
                                       statistics.variance, eps, relu);
  return Function::record(std::move(y), {x, gamma, beta},
                          [] { return std::make_unique<FixedBatchNorm>(); });
}

}  // namespace tasuki
