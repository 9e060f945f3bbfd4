#include "nn/functions/connection.hpp"

#include "nn/functions/building_blocks.hpp"
#include "tensor/geometry.hpp"
#include "tensor/image_operations.hpp"

namespace tasuki::functions {
namespace {

class Deconv2dFunction final : public Function {
 public:
  Deconv2dFunction(Tensor x, Tensor w, const Conv2dOptions& options)
      : x_(std::move(x)), w_(std::move(w)), options_(options) {}
  const char* name() const override { return "deconv2d"; }

  // With the roles of input and result exchanged.
  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate, const Tensor& db) {
          if (db) device.backward_bias(dy, db, false);
          device.conv2d_backward_weights(dy, x_, dw, options_, accumulate);
        },
        [&] { return device.conv2d(dy, w_, {}, options_); });
  }

 private:
  Tensor x_, w_;
  Conv2dOptions options_;
};

Shape result_of(const Shape& x, const Shape& w, const Conv2dOptions& o,
                std::optional<std::pair<std::int64_t, std::int64_t>> size) {
  TASUKI_CHECK(
      x.rank() == 4 && w.rank() == 4 && o.groups >= 1 && x[1] == w[0] && x[1] % o.groups == 0,
      "deconv2d: images of {} and weights of {} (in x out/groups x KH x KW) in {} groups "
      "do not fit",
      x.text(), w.text(), o.groups);
  const auto natural = [](std::int64_t in, std::int64_t kernel, std::int64_t stride,
                          std::int64_t pad, std::int64_t dilation) {
    return stride * (in - 1) + dilation * (kernel - 1) + 1 - 2 * pad;
  };
  if (!size)
    size = {natural(x[2], w[2], o.stride_h, o.pad_h, o.dilation_h),
            natural(x[3], w[3], o.stride_w, o.pad_w, o.dilation_w)};
  TASUKI_CHECK(size->first > 0 && size->second > 0,
               "deconv2d of {} with weights of {}: the result cannot have {} x {} pixels", x.text(),
               w.text(), size->first, size->second);
  const Shape y{x[0], w[1] * o.groups, size->first, size->second};
  TASUKI_CHECK(ConvolutionGeometry(y, w, o).y == x,
               "deconv2d of {} with weights of {}: a convolution of {} x {} pixels does not give "
               "this input",
               x.text(), w.text(), size->first, size->second);
  return y;
}

}  // namespace

Variable deconv2d(const Variable& x, const Variable& w, const Variable& b,
                  const Conv2dOptions& options,
                  std::optional<std::pair<std::int64_t, std::int64_t>> size) {
  const Tensor weights = w.value_as(x.value().dtype());
  const Shape shape = result_of(x.shape(), w.shape(), options, size);
  Backend& device = backend(x.value().device());
  Tensor y = device.conv2d_backward_data(x.value(), weights, shape, options);
  if (b.defined()) device.images().add_bias(y, b.value());
  return Function::record(std::move(y), {x, w, b}, [&] {
    return std::make_unique<Deconv2dFunction>(x.value(), weights, options);
  });
}

}  // namespace tasuki::functions
