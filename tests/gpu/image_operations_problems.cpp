#include "nn/functions/connection.hpp"
#include "problems.hpp"
#include "tensor/image_operations.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

Results response_norm(Side& side, const Shape& shape, const ResponseNormOptions& options) {
  const Tensor x = side.activations(shape, -3, 3), dy = side.activations(shape);
  ImageOperations& operations = side.backend().images();
  std::shared_ptr<Workspace> workspace;
  const Tensor y = operations.local_response_norm(x, options, &workspace);
  return {{"y", y},
          {"y of inference", operations.local_response_norm(x, options, nullptr)},
          {"dx", operations.local_response_norm_backward(x, dy, options, *workspace)}};
}

Results resize(Side& side, const ResizeOptions& options, const Shape& shape, std::int64_t height,
               std::int64_t width) {
  ImageOperations& images = side.backend().images();
  const Tensor x = side.activations(shape);
  const Tensor dy = side.activations({shape[0], shape[1], height, width});
  return {{"y", images.resize(x, height, width, options)},
          {"dx", images.resize_backward(dy, shape, options)}};
}

// Also of what a convolution leaves in the device's favourite layout.
Results noise(Side& side, const Shape& shape) {
  Backend& backend = side.backend();
  const Tensor x = side.activations(shape);
  const Tensor seed = Tensor::full({}, 77, DType::int64).to(side.device());
  Tensor ids = Tensor::empty({shape[0]}, DType::int64);
  for (std::int64_t i = 0; i < shape[0]; ++i) ids.data<std::int64_t>()[i] = 5 * i + 1;
  ids = ids.to(side.device());
  Results results{{"y", backend.images().add_noise(x, Noise::normal, 0.5f, seed, ids)},
                  {"of uniform", backend.images().add_noise(x, Noise::uniform, 0.5f, seed, ids)}};
  if (shape.rank() != 4) return results;
  const Tensor laid_out = backend.conv2d(x, side.weights({32, shape[1], 1, 1}), {}, {});
  results.push_back(
      {"of a convolution", backend.images().add_noise(laid_out, Noise::normal, 0.5f, seed, ids)});
  return results;
}

Results deconvolution(Side& side, const Shape& x_shape, const Shape& w_shape,
                      const Conv2dOptions& options) {
  const Variable x(side.activations(x_shape), true), w(side.weights(w_shape), true),
      b(side.parameters({w_shape[1] * options.groups}), true);
  const Variable y = F::deconv2d(x, w, b, options);
  Backend& backend = side.backend();
  const Tensor dy = side.activations(y.shape());
  return {{"y", y.value()},
          {"dx", backend.conv2d(dy, w.value(), {}, options)},
          {"the next bias", [&] {
             const Tensor again = y.value().clone();
             backend.images().add_bias(again, b.value());
             return again;
           }()}};
}

}  // namespace

void add_image_operations_problems(Problems& problems) {
  const std::vector<ResponseNormOptions> norms = {
      {}, {.window = 3, .k = 1, .alpha = 0.2f, .beta = 0.5f}, {.window = 4, .alpha = 0.1f}};
  for (const Shape& shape :
       {Shape{2, 7, 3, 5}, Shape{2, 32, 4, 4}, Shape{3, 1, 2, 2}, Shape{0, 8, 3, 3}})
    for (const ResponseNormOptions& options : norms)
      problems.push_back(
          {fmt::format("images: local_response_norm/{}, {} channels", shape.text(), options.window),
           [=](Side& side) { return response_norm(side, shape, options); }});
  const auto add_resize = [&](const char* name, const ResizeOptions& options) {
    for (const auto& [shape, height, width] :
         {std::tuple{Shape{2, 3, 4, 5}, std::int64_t{8}, std::int64_t{10}},
          std::tuple{Shape{1, 2, 7, 3}, std::int64_t{4}, std::int64_t{11}},
          std::tuple{Shape{1, 1, 1, 6}, std::int64_t{1}, std::int64_t{2}},
          std::tuple{Shape{0, 2, 3, 3}, std::int64_t{6}, std::int64_t{6}}})
      problems.push_back(
          {fmt::format("images: resize {}/{} to {} x {}", name, shape.text(), height, width),
           [=, shape = shape, height = height, width = width](Side& side) {
             return resize(side, options, shape, height, width);
           }});
  };
  add_resize("nearest", {Interpolation::nearest});
  add_resize("bilinear", {Interpolation::bilinear});
  add_resize("bilinear with corners", {Interpolation::bilinear, true});
  for (const Shape& shape : {Shape{5, 33}, Shape{3, 3, 6, 6}, Shape{2, 5, 3, 3}, Shape{0, 4}})
    problems.push_back({fmt::format("images: noise/{}", shape.text()),
                        [=](Side& side) { return noise(side, shape); }});
  Conv2dOptions upsampling;
  upsampling.stride_h = upsampling.stride_w = 2;
  upsampling.pad_h = upsampling.pad_w = 1;
  Conv2dOptions grouped = upsampling;
  grouped.groups = 2;
  problems.push_back({"images: deconvolution/4x4", [=](Side& side) {
                        return deconvolution(side, {3, 16, 4, 4}, {16, 24, 4, 4}, upsampling);
                      }});
  problems.push_back({"images: deconvolution/groups", [=](Side& side) {
                        return deconvolution(side, {2, 6, 3, 5}, {6, 4, 3, 3}, grouped);
                      }});
}

}  // namespace tasuki::testing
