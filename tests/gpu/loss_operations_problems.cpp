#include "problems.hpp"
#include "tensor/loss_operations.hpp"

namespace tasuki::testing {
namespace {

struct EntropyCase {
  const char* name;
  std::int64_t outer, classes, inner;
  float smoothing = 0;
  bool has_weights = false;
};

Results cross_entropy(Side& side, const EntropyCase& test) {
  LossOperations& losses = side.backend().losses();
  const Tensor x = side.activations({test.outer, test.classes, test.inner});
  const Tensor t = side.labels(test.outer * test.inner, test.classes);
  const Tensor dy = side.parameters({}, 0.5f, 3);
  CrossEntropySettings settings{.smoothing = test.smoothing};
  if (test.has_weights) settings.class_weights = side.parameters({test.classes}, 0.5f, 2);
  const ClassScores scores{x, t, test.outer, test.classes, test.inner};
  ClassScores wide = scores;
  wide.labels = t.to(DType::int64);
  const CountedLoss forward = losses.softmax_cross_entropy(scores, settings);
  return {{"loss", forward.loss},
          {"counted", forward.counted},
          {"dx", losses.softmax_cross_entropy_backward(forward, scores, settings, dy)},
          {"loss of int64 labels", losses.softmax_cross_entropy(wide, settings).loss}};
}

Results sigmoid(Side& side, const Shape& shape) {
  LossOperations& losses = side.backend().losses();
  const Tensor x = side.activations(shape, -6, 6), t = side.parameters(shape, 0, 1);
  const Tensor labels = side.labels(shape.count(), 2).reshape(shape);
  const Tensor dy = side.parameters({}, 0.5f, 3);
  Results results;
  for (const Tensor& targets : {t, labels, labels.to(DType::int64)}) {
    const CountedLoss forward = losses.sigmoid_cross_entropy(x, targets, -1);
    const std::string type{name_of(targets.dtype())};
    results.push_back({"loss of " + type, forward.loss});
    results.push_back({"counted of " + type, forward.counted});
    results.push_back(
        {"dx of " + type, losses.sigmoid_cross_entropy_backward(forward, x, targets, -1, dy)});
  }
  return results;
}

Results huber(Side& side, const Shape& shape, float delta) {
  LossOperations& losses = side.backend().losses();
  const Tensor x = side.activations(shape, -3, 3), t = side.parameters(shape);
  return {{"loss", losses.huber(x, t, delta).loss},
          {"dx", losses.huber_backward(x, t, delta, side.parameters({}, 0.5f, 3))}};
}

// Targets in the backend's own layout, if it has one for float32.
Results made_targets(Side& side) {
  LossOperations& losses = side.backend().losses();
  const Tensor t = side.backend()
                       .conv2d(side.activations({3, 8, 5, 5}), side.weights({6, 8, 3, 3}), {}, {})
                       .to(DType::float32);
  const Tensor x = side.activations(t.shape()), dy = side.parameters({}, 0.5f, 3);
  const CountedLoss forward = losses.sigmoid_cross_entropy(x, t, -1);
  return {{"huber", losses.huber(x, t, 0.75f).loss},
          {"dx of huber", losses.huber_backward(x, t, 0.75f, dy)},
          {"sigmoid", forward.loss},
          {"dx of sigmoid", losses.sigmoid_cross_entropy_backward(forward, x, t, -1, dy)}};
}

}  // namespace

void add_loss_operations_problems(Problems& problems) {
  for (const EntropyCase& test :
       {EntropyCase{"rows", 100, 10, 1}, EntropyCase{"many rows", 5000, 3, 1},
        EntropyCase{"a wide row", 3, 1000, 1}, EntropyCase{"long rows", 9, 5000, 1},
        EntropyCase{"long rows without packs", 5, 1025, 1}, EntropyCase{"no long rows", 0, 2048, 1},
        EntropyCase{"smooth long rows", 5, 1032, 1, 0.1f},
        EntropyCase{"smooth rows", 33, 17, 1, 0.1f}, EntropyCase{"pixels", 3, 5, 37},
        EntropyCase{"smooth weighted pixels", 2, 7, 40, 0.2f, true}, EntropyCase{"none", 0, 4, 1}})
    problems.push_back({fmt::format("losses: cross_entropy/{}", test.name),
                        [=](Side& side) { return cross_entropy(side, test); }});
  problems.push_back({"losses: targets/made by a convolution", made_targets});
  for (const Shape& shape : {Shape{7, 33}, Shape{2, 1, 50, 30}, Shape{0, 5}}) {
    problems.push_back({fmt::format("losses: sigmoid_cross_entropy/{}", shape.text()),
                        [=](Side& side) { return sigmoid(side, shape); }});
    problems.push_back({fmt::format("losses: huber/{}", shape.text()),
                        [=](Side& side) { return huber(side, shape, 0.75f); }});
  }
}

}  // namespace tasuki::testing
