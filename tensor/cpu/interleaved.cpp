#include "tensor/cpu/interleaved.hpp"

namespace tasuki {

dnnl::memory::desc interleaved_desc(const Shape& shape) {
  return {{shape.begin(), shape.end()},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::Abcd16a};
}

bool is_interleaved(const Tensor& x) {
  return !x.is_plain() && x.shape().rank() == 4 && desc_of(x) == interleaved_desc(x.shape());
}

Tensor dnnl_order(const Tensor& x) {
  return is_interleaved(x) ? x.plain() : x;
}

}  // namespace tasuki
