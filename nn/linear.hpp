// Fully connected layer.
#pragma once

#include <optional>

#include "nn/layer.hpp"

namespace tasuki {

// Parameters W (n_out x n_in, LeCun normal) and b (n_out, zeros) unless `bias` is false. Without
// n_in (std::nullopt, Chainer's None), W gets its shape from the first input. With `relu` results
// are max(., 0), without a separate pass.
class Linear : public Layer {
 public:
  Linear(std::optional<std::int64_t> n_in, std::int64_t n_out, bool bias = true,
         Initializer weights = initializers::lecun_normal(), bool relu = false);

  // N x n_in (more axes are flattened) to N x n_out.
  Variable forward(const Variable& x) override;

 private:
  Parameter& w_;
  Parameter* b_;
  bool relu_;
};

}  // namespace tasuki
