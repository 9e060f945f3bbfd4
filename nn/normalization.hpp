// Layers that normalise within each example (functions/normalization.hpp). In training and
// evaluation alike.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/layer.hpp"

namespace tasuki {

// Parameters gamma (ones) and beta (zeros), `size` values each, and Chainer's eps. Without `size`
// it is the number of elements of an example in the first input.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(std::optional<std::int64_t> size = std::nullopt, float eps = 1e-6f);
  Variable forward(const Variable& x) override;

 private:
  float eps_;
  Parameter &gamma_, &beta_;
};

// Parameters gamma (ones) and beta (zeros) of N x C x ...; C is a multiple of `groups`. Without
// `channels` C is taken from the first input.
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
