// Convolution by its definition.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "tensor/operation_options.hpp"
#include "tensor/shape.hpp"

namespace tasuki::testing {

struct ConvolutionProblem {
  Shape x, w;
  Conv2dOptions o;
  std::string text() const {
    return fmt::format("{} * {} stride {}x{} pad {}x{} dilation {}x{} groups {}", x.text(),
                       w.text(), o.stride_h, o.stride_w, o.pad_h, o.pad_w, o.dilation_h,
                       o.dilation_w, o.groups);
  }
};

// Calls visit(y index, x index, w index) for every product, and returns the shape of y.
template <class Visit>
Shape visit_products(const ConvolutionProblem& p, const Visit& visit) {
  const auto& [x, w, o] = p;
  const Shape y = {x[0], w[0],
                   (x[2] + 2 * o.pad_h - o.dilation_h * (w[2] - 1) - 1) / o.stride_h + 1,
                   (x[3] + 2 * o.pad_w - o.dilation_w * (w[3] - 1) - 1) / o.stride_w + 1};
  const std::int64_t per_group = w[0] / o.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t c = 0; c < y[1]; ++c)
      for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j)
          for (std::int64_t k = 0; k < w[1]; ++k)
            for (std::int64_t a = 0; a < w[2]; ++a)
              for (std::int64_t b = 0; b < w[3]; ++b) {
                const std::int64_t row = i * o.stride_h + a * o.dilation_h - o.pad_h;
                const std::int64_t column = j * o.stride_w + b * o.dilation_w - o.pad_w;
                if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
                const std::int64_t channel = c / per_group * w[1] + k;
                visit(((n * y[1] + c) * y[2] + i) * y[3] + j,
                      ((n * x[1] + channel) * x[2] + row) * x[3] + column,
                      ((c * w[1] + k) * w[2] + a) * w[3] + b);
              }
  return y;
}

inline Shape result_of(const ConvolutionProblem& p) {
  return visit_products({p.x.with_items(0), p.w, p.o}, [](auto, auto, auto) {}).with_items(p.x[0]);
}

}  // namespace tasuki::testing
