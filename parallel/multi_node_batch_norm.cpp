#include "parallel/multi_node_batch_norm.hpp"

#include <utility>

#include "nn/function.hpp"
#include "nn/recompute.hpp"
#include "parallel/sum_over_ranks.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

class MultiNodeBatchNormFunction final : public Function {
 public:
  MultiNodeBatchNormFunction(std::shared_ptr<SumOverRanks> over_ranks, Tensor x, Tensor gamma,
                             Tensor beta, BatchNormResult forward, float eps, bool relu)
      : over_ranks_(std::move(over_ranks)),
        x_(std::move(x)),
        gamma_(std::move(gamma)),
        beta_(std::move(beta)),
        forward_(std::move(forward)),
        eps_(eps),
        relu_(relu) {}
  const char* name() const override { return "multi_node_batch_norm"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    const BatchNormGradientSums own =
        device.batch_norm_gradient_sums(x_, forward_, dy, gamma_, beta_, eps_, relu_);
    const std::int64_t channels = gamma_.count();
    pass_on(1, own.sums.slice(channels, 2 * channels), gradients);
    pass_on(2, own.sums.slice(0, channels), gradients);
    if (!gradients.needed(0)) return;
    const Tensor all = over_ranks_->of(own.sums);
    gradients.replace(0, device.batch_norm_gradient(x_, forward_, dy, gamma_, beta_, eps_, relu_,
                                                    own, all, gradients.sum(0)));
  }

 private:
  static void pass_on(std::size_t i, const Tensor& gradient, Gradients& gradients) {
    if (!gradients.needed(i)) return;
    gradients.add(i, gradient);
    gradients.written(i);
  }

  std::shared_ptr<SumOverRanks> over_ranks_;
  Tensor x_, gamma_, beta_;
  BatchNormResult forward_;
  float eps_;
  bool relu_;
};

// Of one layer.
class OverRanks final : public BatchNormMethod {
 public:
  explicit OverRanks(std::shared_ptr<Communicator> communicator)
      : forward_(std::make_shared<SumOverRanks>(communicator, "batch normalisation")),
        backward_(std::make_shared<SumOverRanks>(std::move(communicator), "batch normalisation")) {}

  Variable normalise(const Variable& x, const Variable& gamma, const Variable& beta, float eps,
                     bool relu, const BatchNormAverages& averages) const override {
    Backend& device = backend(x.value().device());
    const Tensor sums =
        computed_once([&] { return forward_->of(device.batch_norm_sums(x.value())); });
    BatchNormAverages updated = averages;
    if (is_recomputing()) {
      updated.mean = averages.mean.clone();
      updated.variance = averages.variance.clone();
    }
    BatchNormResult forward =
        device.batch_norm_by_sums(x.value(), gamma.value(), beta.value(), sums, eps, relu, updated);
    Tensor y = std::exchange(forward.y, {});  // the backward pass reads x, not y
    return Function::record(std::move(y), {x, gamma, beta}, [&] {
      return std::make_unique<MultiNodeBatchNormFunction>(
          backward_, x.value(), gamma.value(), beta.value(), std::move(forward), eps, relu);
    });
  }

  bool communicates() const override { return forward_->communicator().size() > 1; }

 private:
  std::shared_ptr<SumOverRanks> forward_, backward_;
};

}  // namespace

MultiNodeBatchNorm::MultiNodeBatchNorm(std::int64_t channels,
                                       std::shared_ptr<Communicator> communicator,
                                       const Settings& settings)
    : BatchNorm(channels, settings) {
  normalise_by(std::make_shared<const OverRanks>(std::move(communicator)));
}

std::size_t convert_to_multi_node_batch_norm(Module& model, const Communicator& comm) {
  const std::shared_ptr<Communicator> communicator = comm.split(0, comm.rank());
  std::size_t layers = 0;
  for (Module* module : model.modules()) {
    auto* const layer = dynamic_cast<BatchNorm*>(module);
    if (layer == nullptr) continue;
    layer->normalise_by(std::make_shared<const OverRanks>(communicator));
    ++layers;
  }
  return layers;
}

}  // namespace tasuki
