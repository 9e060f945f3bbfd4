// Batch normalisation layer.
#pragma once

#include "tasuki/nn/layer.hpp"

namespace tasuki {

// Parameters gamma (ones) and beta (zeros); buffers avg_mean, avg_var and N (Chainer's names). In
// training it normalises by the batch's statistics and updates the averages:
//   avg = decay * avg + (1 - decay) * batch, the variance unbiased (times m / (m - 1), m = N H W);
// otherwise it normalises by the averages.
class BatchNorm : public Layer {
 public:
  struct Settings {
    float decay = 0.9f;
    float eps = 2e-5f;
    bool relu = false;  // max(y, 0) in the same pass
  };
  explicit BatchNorm(std::int64_t channels);
  BatchNorm(std::int64_t channels, const Settings& settings);

  // N x C or N x C x H x W; an empty batch passes unchanged and updates nothing.
  Variable forward(const Variable& x) override;

 private:
  Settings settings_;
  Parameter &gamma_, &beta_;
  Tensor &mean_, &variance_;
};

}  // namespace tasuki
