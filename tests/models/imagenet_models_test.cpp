// Models for ImageNet against Chainer's (make_chainer_models.py): keys, shapes, and scores for
// weights that both sides compute; and that gradients reach every parameter.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "models/catalog.hpp"
#include "models/googlenet_bn.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/loss.hpp"
#include "nn/random.hpp"
#include "scattered.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::expect_error;
using testing::scatter_values;

constexpr std::int64_t classes = 10, items = 2;

const nlohmann::json& chainer_models() {
  static const nlohmann::json models = testing::json_in(REFERENCES + "/chainer_models.json");
  return models;
}

Tensor images_of(std::int64_t side) {
  Tensor images = Tensor::empty({items, 3, side, side});
  scatter_values(images, 1);
  return images;
}

// As Chainer's model of this name, with its weights.
std::unique_ptr<Layer> chainers(const std::string& name, std::int64_t side) {
  auto model = create_model(name, {classes, {3, side, side}});
  model->initialize(1);
  for (const auto& [path, parameter] : model->parameters())
    if (path.ends_with("/W")) {
      const Shape& shape = parameter->shape();
      scatter_values(parameter->value(),
                     std::sqrt(6.0 / static_cast<double>(shape.count_per_item())));
    }
  return model;
}

void expect_scores(const Variable& found, const nlohmann::json& expected) {
  const Tensor scores = found.value().plain();
  ASSERT_EQ(static_cast<std::size_t>(scores.count()), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(static_cast<double>(scores.span<float>()[i]), expected[i], 1e-4 * largest);
}

class ImageNetModels : public ::testing::TestWithParam<const char*> {
 protected:
  ImageNetModels() {
    set_cpu_threads(1);
    set_conv_algorithm(ConvAlgorithm::direct);
  }
};

TEST_P(ImageNetModels, MatchChainersKeysShapesAndScores) {
  const nlohmann::json& expected = chainer_models()[GetParam()];
  const std::int64_t side = expected["side"], insize = expected["insize"];
  const auto model = chainers(GetParam(), side);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [path, parameter] : model->parameters()) {
    std::vector<std::int64_t>& shape = shapes[path];
    for (int axis = 0; axis < parameter->shape().rank(); ++axis)
      shape.push_back(parameter->shape()[axis]);
  }
  EXPECT_EQ(nlohmann::json(shapes), expected["parameters"]);
  EXPECT_EQ(find_model(GetParam()).insize, insize);
  EXPECT_EQ(create_model(GetParam(), {1000, {3, insize, insize}})->parameter_count(),
            expected["count"]);

  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  const Variable x(images_of(side));
  expect_scores((*model)(x), expected["scores"][0]);
  if (auto* const googlenet = dynamic_cast<GoogLeNetBn*>(model.get())) {
    const GoogLeNetBn::Scores scores = googlenet->all_scores(x);
    expect_scores(scores.main, expected["scores"][0]);
    expect_scores(scores.first, expected["scores"][1]);
    expect_scores(scores.second, expected["scores"][2]);
  }
}

// Those whose images have a smallest size.
using SizedImageNetModels = ImageNetModels;

TEST_P(SizedImageNetModels, GradientsReachEveryParameter) {
  const ModelKind& kind = find_model(GetParam());
  const auto model = create_model(GetParam(), {classes, {3, kind.smallest, kind.smallest}});
  model->initialize(3);
  const std::int32_t labels[] = {3, 1};
  const Tensor t = Tensor::from(std::span<const std::int32_t>(labels), {items});
  RandomKeys keys(7);
  const RandomScope random(keys);
  const Variable x(images_of(kind.smallest));
  if (auto* const googlenet = dynamic_cast<GoogLeNetBn*>(model.get())) {
    const GoogLeNetBn::Scores scores = googlenet->all_scores(x);
    (F::softmax_cross_entropy(scores.main, t) + F::softmax_cross_entropy(scores.first, t) +
     F::softmax_cross_entropy(scores.second, t))
        .backward();
  } else {
    F::softmax_cross_entropy((*model)(x), t).backward();
  }
  for (const auto& [path, parameter] : model->parameters()) {
    double squares = 0;
    const Tensor gradient = parameter->grad().plain();
    for (const float value : gradient.span<float>())
      squares += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_GT(squares, 0) << path;
  }
}

TEST_P(SizedImageNetModels, RejectTooSmallImages) {
  const std::int64_t side = find_model(GetParam()).smallest - 1;
  expect_error(ErrorKind::config,
               {GetParam(), fmt::format("at least {} x {} pixels", side + 1, side + 1)}, [&] {
                 create_model(GetParam(), {classes, {3, side, side}});
               });
}

const auto name_of = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(All, ImageNetModels,
                         ::testing::Values("alex", "nin", "googlenetbn", "resnet50"), name_of);
INSTANTIATE_TEST_SUITE_P(All, SizedImageNetModels, ::testing::Values("alex", "nin", "googlenetbn"),
                         name_of);

TEST(ImageNetResNets, AcceptTheirImageSizes) {
  EXPECT_EQ(create_model("resnet18", {1000, {3, 224, 224}})->parameter_count(), 11'689'576);
  EXPECT_EQ(create_model("resnet18", {5, {3, 96, 96}})->parameters().front().parameter->shape(),
            (Shape{64, 3, 7, 7}));
  EXPECT_EQ(create_model("resnet18")->parameters().front().parameter->shape(),
            (Shape{64, 3, 3, 3}));
}

}  // namespace
}  // namespace tasuki
