// ReLU and pooling in two passes, the default of every backend.
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

struct ReluPoolWorkspace final : Workspace {
  Tensor positive;  // max(x, 0)
  std::shared_ptr<Workspace> pooling;
};

}  // namespace

Tensor Backend::relu_pool2d(const Tensor& x, const Pool2dOptions& options,
                            std::shared_ptr<Workspace>* workspace) {
  const Tensor positive = unary(Unary::relu, x, 0);
  if (workspace == nullptr) return pool2d(positive, options, nullptr);
  auto kept = std::make_shared<ReluPoolWorkspace>();
  kept->positive = positive;
  Tensor y = pool2d(positive, options, &kept->pooling);
  *workspace = std::move(kept);
  return y;
}

Tensor Backend::relu_pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                     const Pool2dOptions& options, const Workspace* workspace) {
  const auto* const kept = dynamic_cast<const ReluPoolWorkspace*>(workspace);
  TASUKI_CHECK(kept != nullptr,
               "the gradient of ReLU and pooling of {}: the forward pass kept "
               "nothing for the backward pass",
               x_shape.text());
  const Tensor slope = pool2d_backward(dy, x_shape, options, kept->pooling.get());
  return unary_backward(Unary::relu, kept->positive, slope, 0);
}

}  // namespace tasuki
