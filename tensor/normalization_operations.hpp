// NormalizationOperations: the operations of a backend over the elements of an example: softmax,
// layer and group normalisation. The conventions of backend.hpp hold.
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki {

// How an array is divided into rows that are normalised one by one: items x groups rows of
// channels x pixels elements each, in plain order. gamma and beta have groups x channels values.
// Layer normalisation: one group of channels of one pixel each.
struct NormRows {
  std::int64_t items = 0, groups = 1, channels = 0, pixels = 1;

  std::int64_t rows() const { return items * groups; }
  std::int64_t length() const { return channels * pixels; }
  std::int64_t all_channels() const { return groups * channels; }
};

struct NormResult {
  Tensor y;
  Tensor statistics;  // float32, rows x 2: mean and 1 / sqrt(variance + eps), the variance biased
};

class NormalizationOperations {
 public:
  virtual ~NormalizationOperations() = default;

  // Over this axis, 0 .. rank - 1; its logarithm if asked for.
  virtual Tensor softmax(const Tensor& x, int axis, bool logarithm) = 0;
  // dx, from the result y.
  virtual Tensor softmax_gradient(const Tensor& y, const Tensor& dy, int axis, bool logarithm) = 0;

  // y = gamma * (x - mean) / sqrt(variance + eps) + beta, with mean and variance of each row.
  virtual NormResult normalize(const Tensor& x, const NormRows& rows, const Tensor& gamma,
                               const Tensor& beta, float eps) = 0;
  // dx + added (of the shape and type of x, in any layout; undefined: nothing is added), rounded
  // once; dgamma and dbeta are written. The order of additions does not depend on threads.
  virtual Tensor normalize_gradient(const Tensor& x, const NormRows& rows, const Tensor& statistics,
                                    const Tensor& dy, const Tensor& gamma, const Tensor& dgamma,
                                    const Tensor& dbeta, bool accumulate,
                                    const Tensor& added = {}) = 0;
};

// What all backends check: the array has these rows, gamma and beta their channels.
inline void check_norm(const Tensor& x, const NormRows& rows, const Tensor& gamma,
                       const Tensor& beta) {
  TASUKI_CHECK(x.count() == rows.rows() * rows.length() &&
                   gamma.shape() == Shape{rows.all_channels()} && beta.shape() == gamma.shape(),
               "normalisation: {} does not consist of {} x {} rows of {} elements with gamma of {} "
               "and beta of {}",
               x.shape().text(), rows.items, rows.groups, rows.length(), gamma.shape().text(),
               beta.shape().text());
}

// x as outer x length x inner elements around an axis.
struct AxisView {
  AxisView(const Shape& shape, int axis) {
    TASUKI_CHECK(0 <= axis && axis < shape.rank(), "softmax: {} has no axis {}", shape.text(),
                 axis);
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    length = shape[axis];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
  std::int64_t outer = 1, length = 1, inner = 1;
};

}  // namespace tasuki
