// The only order of elements besides plain that tensors on GPUs have: channels last.
#pragma once

#include <memory>

#include "tensor/tensor.hpp"

namespace tasuki {

// N x C x H x W values that are stored as N x H x W x C.
struct ChannelsLast final : Layout {};

// The one object of this layout; layouts are compared by address.
const std::shared_ptr<const Layout>& channels_last();
inline bool is_channels_last(const Tensor& x) {
  return x.layout() == channels_last();
}

// New memory of this shape and type in the layout given (nullptr: plain).
Tensor cuda_empty(const Shape& shape, DType dtype, Device device,
                  std::shared_ptr<const Layout> layout = nullptr);
// New memory of the same shape, type and layout.
Tensor cuda_empty_like(const Tensor& x);
// The same values in this layout; shares memory if they are in it already.
Tensor cuda_in_layout(const Tensor& x, const std::shared_ptr<const Layout>& layout);

}  // namespace tasuki
