#include "nn/functions/images.hpp"

#include "nn/call_recorder.hpp"
#include "nn/function.hpp"
#include "nn/functions/arrays.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {
namespace {

class Pool2d final : public Function {
 public:
  Pool2d(const Shape& x_shape, const Pool2dOptions& options, bool relu,
         std::shared_ptr<Workspace> workspace)
      : x_shape_(x_shape), options_(options), relu_(relu), workspace_(std::move(workspace)) {}
  const char* name() const override {
    if (options_.kind == PoolKind::max) return "max_pooling_2d";
    return relu_ ? "relu_average_pooling_2d" : "average_pooling_2d";
  }

  void describe(CallSettings& settings) const override {
    settings.set("window", std::vector{options_.kernel_h, options_.kernel_w});
    settings.set("stride", std::vector{options_.stride_h, options_.stride_w});
    settings.set("pad", std::vector{options_.pad_h, options_.pad_w});
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    gradients.add(0, relu_ ? device.relu_pool2d_backward(dy, x_shape_, options_, workspace_.get())
                           : device.pool2d_backward(dy, x_shape_, options_, workspace_.get()));
  }

 private:
  Shape x_shape_;
  Pool2dOptions options_;
  bool relu_;
  std::shared_ptr<Workspace> workspace_;
};

Variable pool2d(const Variable& x, const Pool2dOptions& options, bool relu = false) {
  Backend& device = backend(x.value().device());
  std::shared_ptr<Workspace> workspace;
  auto* const kept = x.requires_grad() ? &workspace : nullptr;
  Tensor y =
      relu ? device.relu_pool2d(x.value(), options, kept) : device.pool2d(x.value(), options, kept);
  return Function::record(std::move(y), {x}, [&] {
    return std::make_unique<Pool2d>(x.shape(), options, relu, std::move(workspace));
  });
}

Pool2dOptions square(PoolKind kind, std::int64_t window, std::int64_t stride, std::int64_t pad,
                     bool cover_all) {
  if (stride == 0) stride = window;
  return {kind, window, window, stride, stride, pad, pad, cover_all};
}

}  // namespace

Variable max_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride,
                        std::int64_t pad, bool cover_all) {
  return pool2d(x, square(PoolKind::max, window, stride, pad, cover_all));
}

Variable average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride,
                            std::int64_t pad) {
  return pool2d(x, square(PoolKind::average, window, stride, pad, false));
}

Variable relu_average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride,
                                 std::int64_t pad) {
  return pool2d(x, square(PoolKind::average, window, stride, pad, false), /*relu=*/true);
}

Variable global_average_pooling_2d(const Variable& x) {
  const Shape& shape = x.shape();
  TASUKI_CHECK(shape.rank() == 4, "global_average_pooling_2d: expected four axes, found {}",
               shape.text());
  const Pool2dOptions options{PoolKind::average, shape[2], shape[3], shape[2],
                              shape[3],          0,        0,        false};
  return reshape(pool2d(x, options), {shape[0], shape[1]});
}

}  // namespace tasuki::functions
