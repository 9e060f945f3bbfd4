#include "nn/functions/images.hpp"

#include "nn/call_recorder.hpp"
#include "nn/function.hpp"
#include "tensor/backend.hpp"
#include "tensor/image_operations.hpp"

namespace tasuki::functions {
namespace {

class ResizeImages final : public Function {
 public:
  ResizeImages(const Shape& shape, const ResizeOptions& options)
      : shape_(shape), options_(options) {}
  const char* name() const override { return "resize_images"; }
  void describe(CallSettings& settings) const override {
    settings.set("nearest", options_.interpolation == Interpolation::nearest);
    settings.set("align_corners", options_.align_corners);
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).images().resize_backward(dy, shape_, options_));
  }

 private:
  Shape shape_;
  ResizeOptions options_;
};

}  // namespace

Variable resize_images(const Variable& x, std::int64_t height, std::int64_t width,
                       const ResizeOptions& options) {
  const Shape& shape = x.shape();
  TASUKI_CHECK(shape.rank() == 4 && shape[2] > 0 && shape[3] > 0 && height > 0 && width > 0,
               "resize_images: images of {} (N x C x H x W) cannot become {} x {}", shape.text(),
               height, width);
  Tensor y = backend(x.value().device()).images().resize(x.value(), height, width, options);
  return Function::record(std::move(y), {x},
                          [&] { return std::make_unique<ResizeImages>(shape, options); });
}

Variable upsampling_2d(const Variable& x, std::int64_t factor, const ResizeOptions& options) {
  const Shape& shape = x.shape();
  TASUKI_CHECK(shape.rank() == 4 && factor >= 1,
               "upsampling_2d: images of {} cannot be enlarged "
               "by a factor of {}",
               shape.text(), factor);
  return resize_images(x, shape[2] * factor, shape[3] * factor, options);
}

}  // namespace tasuki::functions
