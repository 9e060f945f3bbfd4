#include "nn/functions/normalization.hpp"

#include "nn/call_recorder.hpp"
#include "nn/function.hpp"
#include "tensor/backend.hpp"
#include "tensor/normalization_operations.hpp"

namespace tasuki::functions {
namespace {

// Destinations of the gradients of gamma and beta (inputs 1 and 2).
struct GammaBetaGradients {
  Tensor gamma, beta;
  bool accumulate = false;  // add to their contents
};

// Backends compute both at once; an unneeded one goes to temporary memory.
GammaBetaGradients gamma_beta_gradients(Gradients& gradients, const Tensor& gamma) {
  const auto destination = [&](std::size_t i) -> Gradients::Destination {
    if (gradients.needed(i)) return gradients.into(i, gamma.shape());
    return {Tensor::empty(gamma.shape(), DType::float32, gamma.device()), false};
  };
  const Gradients::Destination dgamma = destination(1), dbeta = destination(2);
  const bool accumulate = dgamma.accumulate || dbeta.accumulate;
  // If only one of the two accumulates, the other starts from zero.
  if (accumulate && !dgamma.accumulate) dgamma.tensor.fill(0);
  if (accumulate && !dbeta.accumulate) dbeta.tensor.fill(0);
  return {dgamma.tensor, dbeta.tensor, accumulate};
}

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
                                           to.beta, to.accumulate, gradients.sum(0));
    if (gradients.needed(0)) gradients.replace(0, std::move(dx));
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
  FixedBatchNorm(BatchStatistics statistics, float eps, bool relu)
      : statistics_(std::move(statistics)), eps_(eps), relu_(relu) {}
  const char* name() const override { return "fixed_batch_norm"; }
  void describe(CallSettings& settings) const override {
    settings.set("mean", statistics_.mean);
    settings.set("variance", statistics_.variance);
    settings.set("eps", static_cast<double>(eps_));
    settings.set("relu", relu_);
  }
  void backward(const Tensor&, Gradients&) override {
    fail(ErrorKind::internal,
         "batch normalisation with fixed statistics has no backward pass; was the forward pass run "
         "with TrainingMode(false)?");
  }

 private:
  BatchStatistics statistics_;
  float eps_;
  bool relu_;
};

class Normalization final : public Function {
 public:
  Normalization(const char* name, const NormRows& rows, float eps, Tensor x, Tensor gamma,
                Tensor statistics)
      : name_(name),
        rows_(rows),
        eps_(eps),
        x_(std::move(x)),
        gamma_(std::move(gamma)),
        statistics_(std::move(statistics)) {}
  const char* name() const override { return name_; }
  void describe(CallSettings& settings) const override {
    settings.set("groups", rows_.groups);
    settings.set("eps", static_cast<double>(eps_));
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const GammaBetaGradients to = gamma_beta_gradients(gradients, gamma_);
    Tensor dx = backend(dy.device())
                    .normalization()
                    .normalize_gradient(x_, rows_, statistics_, dy, gamma_, to.gamma, to.beta,
                                        to.accumulate, gradients.sum(0));
    if (gradients.needed(0)) gradients.replace(0, std::move(dx));
  }

 private:
  const char* name_;
  NormRows rows_;
  float eps_;
  Tensor x_, gamma_, statistics_;
};

Variable normalized(const char* name, const NormRows& rows, const Variable& x,
                    const Variable& gamma, const Variable& beta, float eps) {
  NormResult forward = backend(x.value().device())
                           .normalization()
                           .normalize(x.value(), rows, gamma.value(), beta.value(), eps);
  return Function::record(std::move(forward.y), {x, gamma, beta}, [&] {
    return std::make_unique<Normalization>(name, rows, eps, x.value(), gamma.value(),
                                           std::move(forward.statistics));
  });
}

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
                          [&] { return std::make_unique<FixedBatchNorm>(statistics, eps, relu); });
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, float eps) {
  const std::int64_t length = gamma.value().count();
  // The number of last axes that make a row.
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

}  // namespace tasuki::functions
