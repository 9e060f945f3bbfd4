// Every order of elements that images and filters have on CPUs, as results of oneDNN's primitives
// or of our own kernels, and one that no function knows.
#pragma once

#include <array>

#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki::testing {

struct Order {
  const char* name;
  dnnl::memory::format_tag tag;
};

inline constexpr std::array<Order, 8> every_order = {{
    {"plain", dnnl::memory::format_tag::nchw},
    {"blocks of 16 channels", dnnl::memory::format_tag::nChw16c},
    {"blocks of 8 channels", dnnl::memory::format_tag::nChw8c},
    {"blocks of 4 channels", dnnl::memory::format_tag::nChw4c},
    {"channels last", dnnl::memory::format_tag::nhwc},
    {"interleaved images", dnnl::memory::format_tag::Abcd16a},
    {"blocks of filters", dnnl::memory::format_tag::OIhw16i16o},
    {"images last", dnnl::memory::format_tag::cdba},
}};

// A copy of x, of float32 or bfloat16; of other than four axes, in plain order.
inline Tensor in_order(const Tensor& x, const Order& order) {
  if (x.shape().rank() != 4 || x.count() == 0) return x.clone();
  const Tensor made =
      empty_in({{x.shape().begin(), x.shape().end()}, element_type(desc_of(x.plain())), order.tag});
  made.copy_from(x);
  return made;
}

}  // namespace tasuki::testing
