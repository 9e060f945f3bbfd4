// Losses, as reference_check.hpp says.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "nn/functions/loss.hpp"
#include "reference_check.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(LossReference, GeneralCrossEntropy) {
  for (const DType labels : {DType::int32, DType::int64})
    check_file("general_cross_entropy", [&](const Inputs& in, const ReferenceCase& test) {
      const auto& o = test.options;
      F::SoftmaxCrossEntropyOptions options{o["axis"], o["ignored"], o["smoothing"]};
      const std::vector<float> weights = o["weights"];
      if (!weights.empty())
        options.class_weights = Tensor::from(std::span(weights), {std::ssize(weights)});
      return F::softmax_cross_entropy(in.at("x"), in.at("t").value().to(labels), options);
    });
}

TEST(LossReference, SigmoidCrossEntropy) {
  check_file("sigmoid_cross_entropy", [&](const Inputs& in, const ReferenceCase& test) {
    const Tensor t = in.at(test.name == "labels" ? "t" : "target").value();
    return F::sigmoid_cross_entropy(in.at("input"), t);
  });
}

TEST(LossReference, HuberLoss) {
  check_file("huber_loss", [&](const Inputs& in, const ReferenceCase& test) {
    return F::huber_loss(in.at("x"), in.at("target").value(), test.options["delta"]);
  });
}

// Both ways to compute the loss of plain rows are one function.
TEST(LossReference, EquivalentOptionsGiveTheSameLoss) {
  const Variable x(Tensor::full({3, 4}, 0.5), true);
  const std::int32_t labels[] = {0, 7, 3}, plain[] = {0, -1, 3};
  const float of_7 = static_cast<float>(
      F::softmax_cross_entropy(x, Tensor::from(std::span<const std::int32_t>(labels), {3}),
                               {.ignored_label = 7})
          .value()
          .item());
  EXPECT_FLOAT_EQ(
      of_7, static_cast<float>(
                F::softmax_cross_entropy(x, Tensor::from(std::span<const std::int32_t>(plain), {3}))
                    .value()
                    .item()));
}

// As on a rank that has no example of a step, and where all labels are ignored.
TEST(LossReference, LossIsZeroWithoutCountedTargets) {
  using Loss = std::function<Variable(const Variable& x)>;
  const auto labels_of = [](const Shape& shape) { return Tensor::full(shape, -1, DType::int64); };
  const std::vector<std::pair<Shape, Loss>> losses = {
      {{0, 3}, [&](const Variable& x) { return F::softmax_cross_entropy(x, labels_of({0})); }},
      {{0, 3},
       [&](const Variable& x) {
         return F::softmax_cross_entropy(x, labels_of({0}), {.label_smoothing = 0.1f});
       }},
      {{0, 3, 5},
       [&](const Variable& x) {
         return F::softmax_cross_entropy(x, labels_of({0, 5}));
       }},
      {{2, 3, 0},
       [&](const Variable& x) {
         return F::softmax_cross_entropy(x, labels_of({2, 0}));
       }},
      {{2, 3, 5},
       [&](const Variable& x) {
         return F::softmax_cross_entropy(x, labels_of({2, 5}));
       }},
      {{0, 3},
       [&](const Variable& x) {
         return F::sigmoid_cross_entropy(x, labels_of({0, 3}));
       }},
      {{2, 3},
       [&](const Variable& x) {
         return F::sigmoid_cross_entropy(x, labels_of({2, 3}));
       }},
      {{0, 3},
       [](const Variable& x) {
         return F::sigmoid_cross_entropy(x, Tensor::empty({0, 3}));
       }},
      {{0, 3},
       [](const Variable& x) {
         return F::huber_loss(x, Tensor::empty({0, 3}));
       }},
      {{0, 3},
       [](const Variable& x) {
         return F::mean_squared_error(x, Tensor::empty({0, 3}));
       }},
  };
  for (const auto& [shape, loss_of] : losses) {
    SCOPED_TRACE(shape.text());
    const Variable x(Tensor::full(shape, 0.5), true);
    const Variable loss = loss_of(x);
    EXPECT_EQ(loss.value().item(), 0);
    loss.backward(3);
    ASSERT_EQ(x.grad().shape(), shape);
    for (const float each : x.grad().span<float>()) EXPECT_EQ(each, 0);
  }
}

// Neighbouring positions share work, so that their number must not matter.
TEST(LossReference, TrailingAxesMatchRows) {
  for (const std::int64_t inner : {2, 63, 64, 65, 200}) {
    SCOPED_TRACE(inner);
    constexpr std::int64_t items = 3, classes = 7;
    Tensor scores = testing::random_tensor({items, classes, inner}, 4);
    scores.data<float>()[0] = std::numeric_limits<float>::infinity();  // at an ignored position
    const Variable x(scores, true);
    Tensor t = Tensor::empty({items, inner}, DType::int32);
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % (classes + 1)) - 1;
    const Tensor weights = testing::random_tensor({classes}, 5);
    for (float& each : weights.span<float>()) each += 2;
    const F::SoftmaxCrossEntropyOptions options{.label_smoothing = 0.2f, .class_weights = weights};
    const Variable loss = F::softmax_cross_entropy(x, t, options);
    loss.backward();

    Tensor rows = Tensor::empty({items * inner, classes});
    const auto at = [&](std::int64_t i, std::int64_t c) {
      return (i / inner * classes + c) * inner + i % inner;
    };
    for (std::int64_t i = 0; i < items * inner; ++i)
      for (std::int64_t c = 0; c < classes; ++c)
        rows.data<float>()[i * classes + c] = x.value().data<float>()[at(i, c)];
    const Variable row(rows, true);
    const Variable expected = F::softmax_cross_entropy(row, t.reshape({items * inner}), options);
    expected.backward();
    EXPECT_NEAR(loss.value().item(), expected.value().item(), 1e-6);
    for (std::int64_t i = 0; i < items * inner; ++i)
      for (std::int64_t c = 0; c < classes; ++c)
        ASSERT_NEAR(x.grad().data<float>()[at(i, c)], row.grad().data<float>()[i * classes + c],
                    1e-7)
            << i << " " << c;
  }
}

TEST(LossReference, RejectMismatchedShapes) {
  const Variable x(Tensor::zeros({2, 3, 4}));
  const Tensor t = Tensor::zeros({2, 4}, DType::int32);
  testing::expect_error(ErrorKind::internal, {"scores of 2x3x4 have no axis 3"},
                        [&] { F::softmax_cross_entropy(x, t, {.axis = 3}); });
  testing::expect_error(ErrorKind::internal,
                        {"with classes on axis 2 and labels of 2x4 do not fit"},
                        [&] { F::softmax_cross_entropy(x, t, {.axis = -1}); });
  testing::expect_error(ErrorKind::internal, {"label_smoothing 1 is not in [0, 1)"},
                        [&] { F::softmax_cross_entropy(x, t, {.label_smoothing = 1}); });
  testing::expect_error(ErrorKind::data, {"label 5 at position 0 of the batch"}, [&] {
    F::softmax_cross_entropy(x, Tensor::full({2, 4}, 5, DType::int32));
  });
  testing::expect_error(ErrorKind::data, {"label 2 at position 0 of the batch"}, [&] {
    F::sigmoid_cross_entropy(Variable(Tensor::zeros({2})), Tensor::full({2}, 2, DType::int64));
  });
  testing::expect_error(ErrorKind::internal, {"values of 2 and targets of 3"},
                        [&] { F::huber_loss(Variable(Tensor::zeros({2})), Tensor::zeros({3})); });
}

}  // namespace
}  // namespace tasuki
