// Images of bfloat16 in blocks of 16 channels (nChw16c), and their elements.
#pragma once

#include <cstdint>

#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

inline dnnl::memory::desc channel_blocks(const Shape& images) {
  return {{images.begin(), images.end()},
          dnnl::memory::data_type::bf16,
          dnnl::memory::format_tag::nChw16c};
}

// Of a tensor of 16 bits.
inline std::uint16_t* halves(const Tensor& tensor) {
  return static_cast<std::uint16_t*>(tensor.raw());
}

}  // namespace tasuki
