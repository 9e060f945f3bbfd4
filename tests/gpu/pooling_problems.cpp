#include "problems.hpp"
#include "tensor/geometry.hpp"

namespace tasuki::testing {
namespace {

Results pooling(Side& side, const Shape& shape, const Pool2dOptions& options) {
  const Tensor x = side.activations(shape);
  const Tensor dy = side.activations(PoolingGeometry(shape, options).y);
  std::shared_ptr<Workspace> workspace;
  const Tensor y = side.backend().pool2d(x, options, &workspace);
  const Tensor inferred = side.backend().pool2d(x, options, nullptr);
  std::shared_ptr<Workspace> with_relu;
  const Tensor positive = side.backend().relu_pool2d(x, options, &with_relu);
  return {
      {"y", y},
      {"y of inference", inferred},
      {"dx", side.backend().pool2d_backward(dy, shape, options, workspace.get())},
      {"y with ReLU", positive},
      {"y of inference with ReLU", side.backend().relu_pool2d(x, options, nullptr)},
      {"dx with ReLU", side.backend().relu_pool2d_backward(dy, shape, options, with_relu.get())}};
}

// Of images in the order in which a convolution leaves them, which computes nothing here: where
// values are rounded, another of two nearly equal ones may be the largest.
Results made_images(Side& side, std::int64_t channels, const Pool2dOptions& options) {
  Backend& backend = side.backend();
  const Tensor same = Tensor::zeros({channels, channels, 1, 1});
  for (std::int64_t c = 0; c < channels; ++c) same.data<float>()[c * channels + c] = 1;
  const Tensor x =
      backend.conv2d(side.activations({3, channels, 12, 13}), same.to(side.device()), {}, {});
  const PoolingGeometry geometry(x.shape(), options);
  std::shared_ptr<Workspace> workspace;
  const Tensor y = backend.pool2d(x, options, &workspace);
  const Tensor dy = side.activations(geometry.y);
  std::shared_ptr<Workspace> with_relu;
  const Tensor positive = backend.relu_pool2d(x, options, &with_relu);
  return {{"x", x},
          {"y", y},
          {"y of inference", backend.pool2d(x, options, nullptr)},
          {"dx", backend.pool2d_backward(dy, x.shape(), options, workspace.get())},
          {"y with ReLU", positive},
          {"dx with ReLU", backend.relu_pool2d_backward(dy, x.shape(), options, with_relu.get())}};
}

}  // namespace

void add_pooling_problems(Problems& problems) {
  const std::vector<Pool2dOptions> settings = {
      {PoolKind::max, 2, 2, 2, 2, 0, 0, true},      {PoolKind::max, 2, 2, 2, 2, 0, 0, false},
      {PoolKind::max, 3, 3, 2, 2, 1, 1, true},      {PoolKind::max, 3, 2, 1, 3, 1, 0, true},
      {PoolKind::max, 1, 1, 2, 2, 0, 0, true},      {PoolKind::average, 2, 2, 2, 2, 0, 0, false},
      {PoolKind::average, 3, 3, 2, 1, 1, 1, false}, {PoolKind::average, 7, 7, 1, 1, 0, 0, false}};
  for (const Shape& shape :
       {Shape{3, 5, 7, 8}, Shape{2, 16, 9, 9}, Shape{3, 16, 64, 40}, Shape{0, 2, 8, 8}})
    for (const Pool2dOptions& options : settings)
      problems.push_back({fmt::format("pooling/{}{}", PoolingGeometry(shape, options).text(),
                                      options.cover_all ? ", all covered" : ""),
                          [=](Side& side) { return pooling(side, shape, options); }});
  for (const std::int64_t channels : {16, 12})  // 12 are not whole packs of 16 bits
    for (const Pool2dOptions& options : settings)
      problems.push_back({fmt::format("pooling/{}{}, of a convolution",
                                      PoolingGeometry({3, channels, 12, 13}, options).text(),
                                      options.cover_all ? ", all covered" : ""),
                          [=](Side& side) { return made_images(side, channels, options); }});
}

}  // namespace tasuki::testing
