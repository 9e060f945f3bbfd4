// Losses, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "errors.hpp"
#include "reference_check.hpp"
#include "tasuki/nn/functions/huber_loss.hpp"
#include "tasuki/nn/functions/sigmoid_cross_entropy.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(LossReference, GeneralCrossEntropy) {
  for (const DType labels : {DType::int32, DType::int64})
    check_file("general_cross_entropy", [&](const Inputs& in, const ReferenceCase& test) {
      const auto& o = test.options;
      SoftmaxCrossEntropyOptions options{o["axis"], o["ignored"], o["smoothing"]};
      const std::vector<float> weights = o["weights"];
      if (!weights.empty())
        options.class_weights = Tensor::from(std::span(weights), {std::ssize(weights)});
      return softmax_cross_entropy(in.at("x"), in.at("t").value().to(labels), options);
    });
}

TEST(LossReference, SigmoidCrossEntropy) {
  check_file("sigmoid_cross_entropy", [&](const Inputs& in, const ReferenceCase& test) {
    const Tensor t = in.at(test.name == "labels" ? "t" : "target").value();
    return sigmoid_cross_entropy(in.at("input"), t);
  });
}

TEST(LossReference, HuberLoss) {
  check_file("huber_loss", [&](const Inputs& in, const ReferenceCase& test) {
    return huber_loss(in.at("x"), in.at("target").value(), test.options["delta"]);
  });
}

// Both ways to compute the loss of plain rows are one function.
TEST(LossReference, OptionsThatChangeNothing) {
  const Variable x(Tensor::full({3, 4}, 0.5), true);
  const std::int32_t labels[] = {0, 7, 3}, plain[] = {0, -1, 3};
  const float of_7 = static_cast<float>(
      softmax_cross_entropy(x, Tensor::from(std::span<const std::int32_t>(labels), {3}),
                            {.ignored_label = 7})
          .value()
          .item());
  EXPECT_FLOAT_EQ(
      of_7, static_cast<float>(
                softmax_cross_entropy(x, Tensor::from(std::span<const std::int32_t>(plain), {3}))
                    .value()
                    .item()));
}

TEST(LossReference, RefuseWhatDoesNotFit) {
  const Variable x(Tensor::zeros({2, 3, 4}));
  const Tensor t = Tensor::zeros({2, 4}, DType::int32);
  testing::expect_error(ErrorKind::internal, {"scores of 2x3x4 have no axis 3"},
                        [&] { softmax_cross_entropy(x, t, {.axis = 3}); });
  testing::expect_error(ErrorKind::internal,
                        {"with classes on axis 2 and labels of 2x4 do not fit"},
                        [&] { softmax_cross_entropy(x, t, {.axis = -1}); });
  testing::expect_error(ErrorKind::internal, {"label_smoothing 1 is not in [0, 1)"},
                        [&] { softmax_cross_entropy(x, t, {.label_smoothing = 1}); });
  testing::expect_error(ErrorKind::data, {"label 5 at position 0 of the batch"}, [&] {
    softmax_cross_entropy(x, Tensor::full({2, 4}, 5, DType::int32));
  });
  testing::expect_error(ErrorKind::data, {"label 2 at position 0 of the batch"}, [&] {
    sigmoid_cross_entropy(Variable(Tensor::zeros({2})), Tensor::full({2}, 2, DType::int64));
  });
  testing::expect_error(ErrorKind::internal, {"values of 2 and targets of 3"},
                        [&] { huber_loss(Variable(Tensor::zeros({2})), Tensor::zeros({3})); });
}

}  // namespace
}  // namespace tasuki
