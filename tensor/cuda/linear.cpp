// Fully connected layers. With 16-bit activations, float32 weights and biases are rounded to their
// type for the product.
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/matmul.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/reduce_kernels.hpp"

namespace tasuki {
namespace {

void check_linear(const Tensor& x, const Tensor& w) {
  check_activation(x, "linear");
  check_weights(w, x.device(), x.dtype(), "linear");
  TASUKI_CHECK(x.shape().rank() == 2 && w.shape().rank() == 2 && x.shape()[1] == w.shape()[1],
               "linear: an input of {} does not fit weights of {} (outputs x inputs)",
               x.shape().text(), w.shape().text());
}

// What is done to a sum x w^T + b.
struct End {
  bool relu = false;
  Tensor added = {};   // if defined, is added
  Tensor before = {};  // if defined, takes the sum, and the result is GELU of it
  bool approximate = false;
};

Tensor linear_sum(const Tensor& x, const Tensor& w, const Tensor& b, const End& end) {
  const auto& [relu, added, before, approximate] = end;
  check_linear(x, w);
  const std::int64_t items = x.shape()[0], outputs = w.shape()[0], inputs = w.shape()[1];
  if (b) {
    check_weights(b, x.device(), x.dtype(), "linear");
    TASUKI_CHECK(b.shape() == Shape{outputs}, "linear: a bias of {} for {} outputs",
                 b.shape().text(), outputs);
  }
  if (added)
    TASUKI_CHECK(added.shape() == Shape({items, outputs}) && added.dtype() == x.dtype() &&
                     added.device() == x.device(),
                 "linear: {} of {} to be added to a result of {}x{} in {}", added.shape().text(),
                 name_of(added.dtype()), items, outputs, name_of(x.dtype()));
  Tensor y = Tensor::empty({items, outputs}, x.dtype(), x.device());
  if (y.count() == 0) return y;
  if (inputs == 0) {
    if (added)
      y.copy_from(added);
    else
      y.fill(0);
    if (b)
      kernels::add_bias(launch_on(x), y.dtype(), y.raw(), b.to(DType::float32).data<float>(), items,
                        outputs, relu);
    check_launch("bias");
    return y;
  }
  const Tensor source = x.plain(), weights = w.to(x.dtype());
  const Tensor addend = added ? added.plain() : Tensor();
  multiply(CudaContext::of(x.device()), {.transpose_b = true,
                                         .m = items,
                                         .n = outputs,
                                         .k = inputs,
                                         .operands = x.dtype(),
                                         .result = x.dtype(),
                                         .a = source.raw(),
                                         .b = weights.raw(),
                                         .c = y.raw(),
                                         .beta = added ? 1.0F : 0.0F,
                                         .added = added ? addend.raw() : nullptr,
                                         .bias = b ? b.raw() : nullptr,
                                         .bias_type = b ? b.dtype() : DType::float32,
                                         .relu = relu,
                                         .before = before ? before.raw() : nullptr,
                                         .gelu = approximate ? Map::gelu_tanh : Map::gelu});
  return y;
}

}  // namespace

Tensor CudaBackend::linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  return linear_sum(x, w, b, {.relu = relu});
}

Tensor CudaBackend::add_linear(const Tensor& added, const Tensor& x, const Tensor& w,
                               const Tensor& b) {
  return linear_sum(x, w, b, {.added = added});
}

Tensor CudaBackend::linear_gelu(const Tensor& x, const Tensor& w, const Tensor& b, bool approximate,
                                Tensor* before) {
  check_linear(x, w);
  if (x.count() == 0 || w.count() == 0) return Backend::linear_gelu(x, w, b, approximate, before);
  *before = Tensor::empty({x.shape()[0], w.shape()[0]}, x.dtype(), x.device());
  return linear_sum(x, w, b, {.before = *before, .approximate = approximate});
}

Tensor CudaBackend::linear_backward_data(const Tensor& dy, const Tensor& w) {
  check_activation(dy, "linear");
  check_weights(w, dy.device(), dy.dtype(), "linear");
  TASUKI_CHECK(dy.shape().rank() == 2 && dy.shape()[1] == w.shape()[0],
               "linear: a gradient of {} does not fit weights of {} (outputs x inputs)",
               dy.shape().text(), w.shape().text());
  const std::int64_t items = dy.shape()[0], outputs = w.shape()[0], inputs = w.shape()[1];
  Tensor dx = Tensor::empty({items, inputs}, dy.dtype(), dy.device());
  if (dx.count() == 0) return dx;
  if (outputs == 0) {
    dx.fill(0);
    return dx;
  }
  const Tensor upstream = dy.plain(), weights = w.to(dy.dtype());
  multiply(CudaContext::of(dy.device()), {.m = items,
                                          .n = inputs,
                                          .k = outputs,
                                          .operands = dy.dtype(),
                                          .result = dy.dtype(),
                                          .a = upstream.raw(),
                                          .b = weights.raw(),
                                          .c = dx.raw()});
  return dx;
}

void CudaBackend::linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                          bool accumulate, const Tensor& db) {
  check_linear(x, dw);
  check_parameter(dw, x.device(), "linear");
  TASUKI_CHECK(dy.shape() == Shape({x.shape()[0], dw.shape()[0]}) && dy.dtype() == x.dtype(),
               "linear: a gradient of {} in {} does not fit an input of {} in {} and weights of {}",
               dy.shape().text(), name_of(dy.dtype()), x.shape().text(), name_of(x.dtype()),
               dw.shape().text());
  const std::int64_t items = x.shape()[0], outputs = dw.shape()[0], inputs = dw.shape()[1];
  if (db) {
    check_parameter(db, x.device(), "linear");
    TASUKI_CHECK(db.shape() == Shape{outputs}, "linear: a gradient of a bias of {} for {} outputs",
                 db.shape().text(), outputs);
  }
  if (dw.count() == 0 || items == 0) {
    if (!accumulate) dw.fill(0);
    if (db) backward_bias(dy, db, false);
    return;
  }
  const Tensor upstream = dy.plain(), source = x.plain();
  const bool has_db =
      multiply(CudaContext::of(x.device()), {.transpose_a = true,
                                             .m = outputs,
                                             .n = inputs,
                                             .k = items,
                                             .operands = x.dtype(),
                                             .result = DType::float32,
                                             .a = upstream.raw(),
                                             .b = source.raw(),
                                             .c = dw.raw(),
                                             .beta = accumulate ? 1.0F : 0.0F,
                                             .row_sums = db ? db.data<float>() : nullptr});
  if (db && !has_db) backward_bias(upstream, db, false);
}

}  // namespace tasuki
