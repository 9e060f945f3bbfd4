// Functions of images, as reference_check.hpp says.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/connection.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/random.hpp"
#include "reference_check.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::optional;
using testing::ReferenceCase;

TEST(ImageReference, Deconv2d) {
  for (const ConvAlgorithm algorithm :
       {ConvAlgorithm::direct, ConvAlgorithm::interleaved, ConvAlgorithm::fastest}) {
    set_conv_algorithm(algorithm);
    check_file("deconv2d", [](const Inputs& in, const ReferenceCase& test) {
      const auto& given = test.options;
      Conv2dOptions o;
      o.stride_h = given["stride"][0], o.stride_w = given["stride"][1];
      o.pad_h = given["pad"][0], o.pad_w = given["pad"][1];
      o.dilation_h = given["dilation"][0], o.dilation_w = given["dilation"][1];
      o.groups = given["groups"];
      const std::vector<std::int64_t> size = given["size"];
      if (size.empty()) return F::deconv2d(in.at("x"), in.at("w"), optional(in, "b"), o);
      return F::deconv2d(in.at("x"), in.at("w"), optional(in, "b"), o, std::pair{size[0], size[1]});
    });
  }
}

TEST(ImageReference, ResizeImages) {
  check_file("resize_images", [](const Inputs& in, const ReferenceCase& test) {
    const auto& o = test.options;
    return F::resize_images(
        in.at("x"), o["size"][0], o["size"][1],
        {test.name == "nearest" ? Interpolation::nearest : Interpolation::bilinear, o["corners"]});
  });
}

TEST(Upsampling, RepeatsPixels) {
  const float values[] = {1, 2, 3, 4};
  const Tensor y =
      F::upsampling_2d(Variable(Tensor::from(std::span<const float>(values), {1, 1, 2, 2})), 2)
          .value();
  const std::vector<float> expected = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  EXPECT_EQ(std::vector<float>(y.span<float>().begin(), y.span<float>().end()), expected);
}

TEST(Deconv2d, HasChainersParameters) {
  Deconv2d layer(std::nullopt, 6, 4, 2, 1);
  layer.initialize(1);
  const Variable y = layer(Variable(Tensor::zeros({2, 3, 5, 5})));
  EXPECT_EQ(y.shape(), (Shape{2, 6, 10, 10}));
  const auto parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].path, "W");
  EXPECT_EQ(parameters[0].parameter->shape(), (Shape{3, 6, 4, 4}));
  EXPECT_EQ(parameters[1].path, "b");
}

TEST(Deconv2d, RejectsMismatchedShapes) {
  const Variable x(Tensor::zeros({2, 3, 5, 5})), w(Tensor::zeros({3, 6, 4, 4}));
  testing::expect_error(ErrorKind::internal, {"images of 2x3x5x5 and weights of 4x6x4x4"}, [&] {
    F::deconv2d(x, Variable(Tensor::zeros({4, 6, 4, 4})));
  });
  testing::expect_error(
      ErrorKind::internal, {"a convolution of 20 x 10 pixels does not give this"}, [&] {
        F::deconv2d(x, w, {}, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
                    std::pair<std::int64_t, std::int64_t>{20, 10});
      });
}

// Moments, and the same numbers in every layout and batch.
TEST(GaussianNoise, IsNormalAndDependsOnlyOnTheExample) {
  const TrainingMode training(true);
  RandomKeys keys(3);
  const std::int64_t ids[] = {11, 5};
  const auto noise_of = [&](std::span<const std::int64_t> examples, const Variable& x) {
    keys.follow(2, examples);
    const RandomScope scope(keys);
    return F::gaussian_noise(x, 0.5f).value().plain();
  };
  const Tensor zeros = Tensor::zeros({2, 32, 16, 16});
  const Tensor both = noise_of(ids, Variable(zeros));
  double sum = 0, squares = 0, fourth = 0;
  for (const float value : both.span<float>()) {
    const double square = static_cast<double>(value) * static_cast<double>(value);
    sum += static_cast<double>(value);
    squares += square;
    fourth += square * square;
  }
  const auto n = static_cast<double>(both.count());
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 0.25, 0.01);
  EXPECT_NEAR(fourth / n, 3 * 0.0625, 0.02);

  // What a convolution leaves in its own layout: zeros.
  const Variable laid_out =
      F::conv2d(Variable(zeros.slice(1, 2)), Variable(Tensor::zeros({32, 32, 1, 1})));
  const Tensor second = noise_of(std::span(ids).subspan(1), laid_out);
  for (std::int64_t i = 0; i < second.count(); ++i)
    ASSERT_EQ(second.data<float>()[i], both.data<float>()[second.count() + i]) << i;

  const TrainingMode evaluation(false);
  EXPECT_EQ(noise_of(ids, Variable(zeros)).span<float>()[0], 0);
}

}  // namespace
}  // namespace tasuki
