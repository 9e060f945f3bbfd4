#include <limits>

#include "nn/functions/loss.hpp"
#include "problems.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

Results cross_entropy(Side& side, std::int64_t items, std::int64_t classes) {
  const Tensor x = side.activations({items, classes}), t = side.labels(items, classes);
  const Tensor dy = side.parameters({}, 0.5f, 3);
  Backend& backend = side.backend();
  const CrossEntropyResult forward = backend.softmax_cross_entropy(x, t);
  const Tensor wide = t.to(DType::int64);
  const CrossEntropyResult of_wide = backend.softmax_cross_entropy(x, wide);
  const AccuracyResult right = backend.count_correct(x, t);
  AccuracyResult beside;
  const CrossEntropyResult both = backend.softmax_cross_entropy(x, t, &beside);
  return {{"loss", forward.loss},
          {"probabilities", forward.probabilities},
          {"counted", forward.counted},
          {"dx", backend.softmax_cross_entropy_backward(forward, t, dy)},
          {"correct", right.correct},
          {"labelled", right.counted},
          {"loss beside the accuracy", both.loss},
          {"correct beside the loss", beside.correct},
          {"labelled beside the loss", beside.counted},
          {"loss of int64 labels", of_wide.loss},
          {"dx of int64 labels", backend.softmax_cross_entropy_backward(of_wide, wide, dy)},
          {"correct of int64 labels", backend.count_correct(x, wide).correct}};
}

// The first of equal scores counts, and NaN never does. Every third row has some NaN, row 0 nothing
// else.
Results equal_scores(Side& side, std::int64_t items, std::int64_t classes) {
  const Tensor host = Tensor::zeros({items, classes});
  for (std::int64_t i = 0; i < host.count(); ++i) {
    const std::int64_t row = i / classes, column = i % classes;
    const bool is_number = row % 3 != 0 || (row > 0 && column % 2 == row % 2);
    host.data<float>()[i] =
        is_number ? static_cast<float>(i * i % 5 % 3) : std::numeric_limits<float>::quiet_NaN();
  }
  const Tensor x = host.to(side.dtype()).to(side.device()), t = side.labels(items, classes);
  const AccuracyResult right = side.backend().count_correct(x, t);
  AccuracyResult beside;
  side.backend().softmax_cross_entropy(x, t, &beside);
  return {{"correct", right.correct},
          {"correct beside the loss", beside.correct},
          {"labelled beside the loss", beside.counted}};
}

// The function itself: it is made of operations that each have their problems.
Results squared_error(Side& side, const Shape& shape) {
  const Variable y(side.activations(shape), /*requires_grad=*/true);
  const Variable loss = F::mean_squared_error(y, side.parameters(shape));
  loss.backward(0.5f);
  return {{"loss", loss.value()}, {"dy", y.grad()}};
}

Results metrics(Side& side) {
  const Tensor sum = Tensor::full({}, 3, DType::float64, side.device());
  Backend& backend = side.backend();
  backend.accumulate_scalar(sum, side.parameters({}), 100);
  Results results;
  for (const DType type : every_type) {
    backend.accumulate_scalar(sum, Tensor::full({}, 17, type, side.device()), 1.5);
    results.push_back({fmt::format("sum with {}", name_of(type)), sum.clone()});
  }
  const Tensor x = side.parameters({1237});
  results.push_back({"squared norm", Tensor::full({1}, backend.squared_norm(x), DType::float64)});
  return results;
}

}  // namespace

void add_loss_problems(Problems& problems) {
  for (const auto& [items, classes] : {std::pair<std::int64_t, std::int64_t>{100, 10},
                                       {1, 1},
                                       {3, 1000},
                                       {257, 33},
                                       {9000, 7},
                                       {0, 10}})
    problems.push_back({fmt::format("cross_entropy/{} x {}", items, classes),
                        [items = items, classes = classes](Side& side) {
                          return cross_entropy(side, items, classes);
                        }});
  for (const auto& [items, classes] : {std::pair<std::int64_t, std::int64_t>{200, 10}, {60, 64}})
    problems.push_back({fmt::format("cross_entropy/equal scores of {} x {}", items, classes),
                        [items = items, classes = classes](Side& side) {
                          return equal_scores(side, items, classes);
                        }});
  for (const Shape& shape : {Shape{100, 1}, Shape{7, 3, 5, 4}, Shape{1, 1}, Shape{300, 129}})
    problems.push_back({fmt::format("squared_error/{}", shape.text()),
                        [=](Side& side) { return squared_error(side, shape); }});
  problems.push_back({"metrics", metrics});
}

}  // namespace tasuki::testing
