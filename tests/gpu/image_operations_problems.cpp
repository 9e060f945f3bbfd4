#include "problems.hpp"
#include "tasuki/tensor/image_operations.hpp"

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
}

}  // namespace tasuki::testing
