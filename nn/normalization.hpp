// Layers that normalise. They compute what nn/functions/normalization.hpp describes. LayerNorm and
// GroupNorm do so in training and evaluation alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nn/layer.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// How BatchNorm layers normalise in training. The default is functions::batch_norm of this
// process's batch; others are in parallel/.
class BatchNormMethod {
 public:
  virtual ~BatchNormMethod() = default;
  // As functions::batch_norm, and moves `averages`. x may have no items.
  virtual Variable normalise(const Variable& x, const Variable& gamma, const Variable& beta,
                             float eps, bool relu, const BatchNormAverages& averages) const = 0;
  // Module::communicates().
  virtual bool communicates() const { return false; }
};

// By the batch. Parameters gamma (ones; not with use_gamma = false) and beta (zeros); buffers
// avg_mean, avg_var and N (Chainer's names). In training it normalises by the batch's statistics
// and updates the averages:
//   avg = decay * avg + (1 - decay) * batch, the variance unbiased (times m / (m - 1), m = N H W);
// otherwise it normalises by the averages.
class BatchNorm : public Layer {
 public:
  struct Settings {
    float decay = 0.9f;
    float eps = 2e-5f;
    bool relu = false;  // max(y, 0) in the same pass
    bool use_gamma = true;
  };
  explicit BatchNorm(std::int64_t channels);
  BatchNorm(std::int64_t channels, const Settings& settings);

  // N x C or N x C x H x W; an empty batch passes unchanged and updates nothing.
  Variable forward(const Variable& x) override;

  // From now on; null: the default. Parameters, buffers and their paths stay as they are.
  void normalise_by(std::shared_ptr<const BatchNormMethod> method) { method_ = std::move(method); }

 private:
  bool communicates_itself() const override { return method_ && method_->communicates(); }
  // The parameter, or ones.
  const Variable& gamma(Device device);

  std::shared_ptr<const BatchNormMethod> method_;
  Settings settings_;
  Parameter* gamma_;  // null: use_gamma is false
  Parameter& beta_;
  Tensor &mean_, &variance_;
  Variable ones_;
};

// By example. Parameters gamma (ones) and beta (zeros), `size` values each, and Chainer's eps.
// Without `size` it is the number of elements of an example in the first input.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(std::optional<std::int64_t> size = std::nullopt, float eps = 1e-6f);
  Variable forward(const Variable& x) override;

 private:
  float eps_;
  Parameter &gamma_, &beta_;
};

// By groups of channels of an example. Parameters gamma (ones) and beta (zeros) of N x C x ...; C
// is a multiple of `groups`. Without `channels` C is taken from the first input.
class GroupNorm : public Layer {
 public:
  explicit GroupNorm(std::int64_t groups, std::optional<std::int64_t> channels = std::nullopt,
                     float eps = 1e-5f);
  Variable forward(const Variable& x) override;

 private:
  std::int64_t groups_;
  float eps_;
  Parameter &gamma_, &beta_;
};

}  // namespace tasuki
