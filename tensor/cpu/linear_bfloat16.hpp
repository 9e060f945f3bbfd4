// Matrix products of fully connected layers with inputs rounded to bfloat16 and float32 sums, by
// oneDNN's inner product. Arguments are as in Backend; results are plain and have the right shape;
// no tensor is empty.
#pragma once

#include "tensor/tensor.hpp"

namespace tasuki {

void linear_bfloat16(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y);
void linear_bfloat16_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx);
void linear_bfloat16_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                      bool accumulate);

}  // namespace tasuki
