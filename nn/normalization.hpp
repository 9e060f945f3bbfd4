// Layers that normalise. They compute what nn/functions/normalization.hpp describes. LayerNorm and
// GroupNorm compute the same in training and evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nn/layer.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// How BatchNorm layers normalise in training. The default is functions::batch_norm over this
// process's batch; parallel/ has others.
class BatchNormMethod {
 public:
  virtual ~BatchNormMethod() = default;
  // Like functions::batch_norm, and updates `averages`. x may be empty.
  virtual Variable normalise(const Variable& x, const Variable& gamma, const Variable& beta,
                             float eps, bool relu, const BatchNormAverages& averages) const = 0;
  // See Module::communicates().
  virtual bool communicates() const { return false; }
};

// Batch normalisation. Parameters gamma (ones; not with use_gamma = false) and beta (zeros);
// buffers avg_mean, avg_var and N (Chainer's names). In training it normalises by the batch's
// statistics and updates the averages:
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

  // The method from now on; null: the default. Parameters, buffers and their paths stay as they
  // are.
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

// Layer normalisation, per example. Parameters gamma (ones) and beta (zeros), `size` values each,
// with Chainer's eps. `size` defaults to the number of elements of an example in the first input.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(std::optional<std::int64_t> size = std::nullopt, float eps = 1e-6f);
  Variable forward(const Variable& x) override;

 private:
  float eps_;
  Parameter &gamma_, &beta_;
};

// Group normalisation, per example and group of channels of N x C x ... Parameters gamma (ones) and
// beta (zeros), C values each; C is a multiple of `groups`. Without `channels`, C is taken from the
// first input.
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
