// A convolution of the simulated cuDNN, and its gradients.
#pragma once

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "refusals.hpp"
#include "values.hpp"

// A tensor N x C x H x W or a filter O x I x KH x KW, and the steps between values along these
// axes.
struct cudnnTensorStruct {
  tasuki::simulated::ValueType type;
  cudnnTensorFormat_t format;
  std::array<long, 4> size, step;

  std::size_t at(long n, long c, long h, long w) const {
    return static_cast<std::size_t>(n * step[0] + c * step[1] + h * step[2] + w * step[3]);
  }
};
struct cudnnFilterStruct : cudnnTensorStruct {};

struct cudnnConvolutionStruct {
  long pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace tasuki::simulated {

// The shapes and settings of a convolution, and so of its gradients.
struct Problem {
  cudnnTensorStruct x, w, y;
  cudnnConvolutionStruct convolution;

  bool fits() const {
    const auto& c = convolution;
    const auto out = [](long in, long pad, long kernel, long stride, long dilation) {
      return (in + 2 * pad - (dilation * (kernel - 1) + 1)) / stride + 1;
    };
    return x.type == w.type && x.type == y.type && x.type != ValueType::unknown &&
           y.size[0] == x.size[0] && y.size[1] == w.size[0] && w.size[1] * c.groups == x.size[1] &&
           w.size[0] % c.groups == 0 &&
           y.size[2] == out(x.size[2], c.pad_h, w.size[2], c.stride_h, c.dilation_h) &&
           y.size[3] == out(x.size[3], c.pad_w, w.size[3], c.stride_w, c.dilation_w);
  }

  ConvolutionKind kind() const {
    const auto& c = convolution;
    return {.is_channels_last = x.format == CUDNN_TENSOR_NHWC,
            .is_16bit = x.type != ValueType::float32,
            .is_irregular = c.groups > 1 || c.dilation_h > 1 || c.dilation_w > 1 ||
                            x.size[1] % 8 != 0 || y.size[1] % 8 != 0,
            .is_fused = false};
  }

  // Tensor cores round float32 operands; only CUDNN_FMA_MATH keeps off them.
  bool is_tf32() const {
    return x.type == ValueType::float32 && convolution.math != CUDNN_FMA_MATH;
  }

  // visitor(weight, x, y, count, step of x, step of y) with indices, for `count` products of one
  // weight with neighbouring values of x and y.
  template <class Visitor>
  void for_products(Visitor&& visitor) const {
    const auto& c = convolution;
    const long outputs = w.size[0], inputs = w.size[1], outputs_of_group = outputs / c.groups;
    const long x_step = c.stride_w * x.step[3], y_step = y.step[3];
    for (long n = 0; n < y.size[0]; ++n)
      for (long o = 0; o < outputs; ++o)
        for (long i = 0; i < inputs; ++i)
          for (long kh = 0; kh < w.size[2]; ++kh)
            for (long kw = 0; kw < w.size[3]; ++kw) {
              const long channel = o / outputs_of_group * inputs + i;
              // iw = ow * stride + shift lies within the image for ow in first .. last.
              const long shift = kw * c.dilation_w - c.pad_w;
              const long first = shift < 0 ? (-shift + c.stride_w - 1) / c.stride_w : 0;
              const long room = x.size[3] - 1 - shift;
              if (room < 0) continue;
              const long last = std::min(y.size[3] - 1, room / c.stride_w);
              if (last < first) continue;
              for (long oh = 0; oh < y.size[2]; ++oh) {
                const long ih = oh * c.stride_h - c.pad_h + kh * c.dilation_h;
                if (ih < 0 || ih >= x.size[2]) continue;
                visitor(w.at(o, i, kh, kw), x.at(n, channel, ih, first * c.stride_w + shift),
                        y.at(n, o, oh, first), static_cast<std::size_t>(last - first + 1),
                        static_cast<std::size_t>(x_step), static_cast<std::size_t>(y_step));
              }
            }
  }
};

enum class Result { x, w, y };

// What follows in the same pass: y = f(convolution + alpha z + bias), f(x) = x or max(x, 0).
struct Epilogue {
  const void* bias;  // of a channel each, in y's type
  const void* z;     // in y's form
  bool relu, keeps_nan;
  bool reads_z;  // with factor 0, too
};

// Two algorithms are offered: one without workspace and one that wants some.
constexpr std::size_t wanted_workspace(int algorithm) {
  return algorithm == 1 ? 1024 : 0;
}

// result = alpha times the convolution, or its gradient, + beta * result, by an algorithm. With an
// epilogue, which is for Result::y, beta is z's factor. What has factor 0 is not read.
cudnnStatus_t convolve(cudnnHandle_t handle, const Problem& problem, Result result, int algorithm,
                       const void* alpha, const void* beta, void* x, void* w, void* y,
                       std::size_t workspace_bytes, const Epilogue* epilogue = nullptr);

}  // namespace tasuki::simulated
