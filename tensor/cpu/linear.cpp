// Matrix products of fully connected layers: of 16 bits by rounded_product.hpp, of float32 by
// oneDNN's sgemm on plain arrays. On plain arrays of float32, its inner_product and matmul
// primitives are only 1 or 2 % faster in the forward pass (bench/mlp_step.cpp has the shapes); on
// blocked weights they are faster, but by less than it takes to reorder weights that change at
// every step.
#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/activation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/matrix_product.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

void check_linear(const Shape& x, const Shape& w, const char* what) {
  TASUKI_CHECK(x.rank() == 2 && w.rank() == 2 && x[1] == w[1],
               "{}: an input of {} does not fit weights of {} (outputs x inputs)", what, x.text(),
               w.text());
}

}  // namespace

Tensor CpuBackend::linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  check_linear(x.shape(), w.shape(), "linear");
  const std::int64_t items = x.shape()[0], outputs = w.shape()[0], inputs = w.shape()[1];
  TASUKI_CHECK(!b || b.shape() == Shape{outputs}, "linear: a bias of {} for {} outputs",
               b.shape().text(), outputs);
  const bool is_rounded = has_16_bits(x.dtype());
  if (is_rounded && inputs == 0)
    return linear(in_float32(x), in_float32(w), in_float32(b), relu).to(x.dtype());
  Tensor y = Tensor::empty({items, outputs}, x.dtype());
  if (y.count() == 0) return y;
  if (is_rounded) {
    multiply_rounded({x.plain()}, {w.to(x.dtype()), /*transposed=*/true}, y,
                     {.bias = in_float32(b), .relu = relu});
    return y;
  }
  if (b)
    repeat_row_kernel(b.data<float>(), y.data<float>(), items, outputs);
  else if (inputs == 0)
    y.fill(0);
  if (inputs > 0)
    multiply({'N', 'T', items, outputs, inputs, x.plain().data<float>(), w.data<float>(),
              y.data<float>(), b ? 1.0f : 0.0f});
  if (relu)
    parallel_for(y.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      float* const values = y.data<float>() + begin;
      relu_kernel(values, values, end - begin);
    });
  return y;
}

Tensor CpuBackend::add_linear(const Tensor& added, const Tensor& x, const Tensor& w,
                              const Tensor& b) {
  check_linear(x.shape(), w.shape(), "linear");
  const std::int64_t items = x.shape()[0], outputs = w.shape()[0], inputs = w.shape()[1];
  TASUKI_CHECK(added.shape() == Shape({items, outputs}) && added.dtype() == x.dtype() &&
                   (!b || b.shape() == Shape{outputs}),
               "add_linear: a bias of {} and {} of {} to be added to a result of {}x{} in {}",
               b.shape().text(), added.shape().text(), name_of(added.dtype()), items, outputs,
               name_of(x.dtype()));
  if (inputs == 0) return Backend::add_linear(added, x, w, b);
  Tensor y = Tensor::empty({items, outputs}, x.dtype());
  if (y.count() == 0) return y;
  if (has_16_bits(x.dtype())) {
    y.copy_from(added);
    multiply_rounded({x.plain()}, {w.to(x.dtype()), /*transposed=*/true}, y,
                     {.bias = in_float32(b), .accumulate = true});
    return y;
  }
  if (b) {
    const Tensor from = added.plain();
    parallel_for(items, elementwise_grain / outputs + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        add_kernel(from.data<float>() + i * outputs, b.data<float>(), y.data<float>() + i * outputs,
                   outputs);
    });
  } else {
    y.copy_from(added);
  }
  multiply({'N', 'T', items, outputs, inputs, x.plain().data<float>(), w.data<float>(),
            y.data<float>(), 1.0f});
  return y;
}

Tensor CpuBackend::linear_backward_data(const Tensor& dy, const Tensor& w) {
  TASUKI_CHECK(dy.shape().rank() == 2 && dy.shape()[1] == w.shape()[0],
               "linear: a gradient of {} does not fit weights of {} (outputs x inputs)",
               dy.shape().text(), w.shape().text());
  const std::int64_t items = dy.shape()[0], outputs = w.shape()[0], inputs = w.shape()[1];
  Tensor dx = Tensor::empty({items, inputs}, dy.dtype());
  if (dx.count() == 0) return dx;
  if (outputs == 0)
    dx.fill(0);
  else if (has_16_bits(dy.dtype()))
    multiply_rounded({dy.plain()}, {w.to(dy.dtype())}, dx);
  else
    multiply({'N', 'N', items, inputs, outputs, dy.plain().data<float>(), w.data<float>(),
              dx.data<float>(), 0.0f});
  return dx;
}

void CpuBackend::linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                         bool accumulate, const Tensor& db) {
  check_linear(x.shape(), dw.shape(), "linear");
  TASUKI_CHECK(dy.shape() == Shape({x.shape()[0], dw.shape()[0]}),
               "linear: a gradient of {} does not fit an input of {} and weights of {}",
               dy.shape().text(), x.shape().text(), dw.shape().text());
  if (db) backward_bias(dy, db, false);
  const std::int64_t items = x.shape()[0], outputs = dw.shape()[0], inputs = dw.shape()[1];
  if (dw.count() == 0) return;
  if (items == 0) {
    if (!accumulate) dw.fill(0);
    return;
  }
  if (has_16_bits(dy.dtype()))
    multiply_rounded({dy.plain(), /*transposed=*/true}, {x.plain()}, dw,
                     {.accumulate = accumulate});
  else
    multiply({'T', 'N', outputs, inputs, items, dy.plain().data<float>(), x.plain().data<float>(),
              dw.data<float>(), accumulate ? 1.0f : 0.0f});
}

}  // namespace tasuki
