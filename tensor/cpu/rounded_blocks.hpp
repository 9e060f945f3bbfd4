// Orders of images of bfloat16, and their elements.
#pragma once

#include <cstdint>

#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Blocks of 16 channels (nChw16c).
inline dnnl::memory::desc channel_blocks(const Shape& images) {
  return {{images.begin(), images.end()},
          dnnl::memory::data_type::bf16,
          dnnl::memory::format_tag::nChw16c};
}

// All channels of a pixel side by side (nhwc).
inline dnnl::memory::desc channels_last(const Shape& images) {
  return {{images.begin(), images.end()},
          dnnl::memory::data_type::bf16,
          dnnl::memory::format_tag::nhwc};
}

// In blocks if all of them are full, else side by side.
inline bool has_full_blocks(const Shape& images) {
  constexpr std::int64_t block = 16;
  return images[1] % block == 0;
}
inline dnnl::memory::desc rounded_order(const Shape& images) {
  return has_full_blocks(images) ? channel_blocks(images) : channels_last(images);
}

// Of a tensor of 16 bits.
inline std::uint16_t* halves(const Tensor& tensor) {
  return static_cast<std::uint16_t*>(tensor.raw());
}

}  // namespace tasuki
