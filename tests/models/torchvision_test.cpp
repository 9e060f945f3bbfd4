// torchvision's networks against torchvision (make_torchvision_models.py): names and shapes of all
// arrays in its files, and scores for weights and statistics that both sides compute.
#include "models/torchvision.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "models/catalog.hpp"
#include "models/gpt.hpp"
#include "models/seq2seq.hpp"
#include "saving/model_file.hpp"
#include "saving/name_map.hpp"
#include "scattered.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace tasuki {
namespace {

using testing::expect_error;
using testing::scatter_values;

const nlohmann::json& torchvisions() {
  static const nlohmann::json models = testing::json_in(REFERENCES + "/torchvision_models.json");
  return models;
}

// values_of() of make_torchvision_models.py.
void fill(const std::string& path, const Tensor& values) {
  const Shape& shape = values.shape();
  if (path.ends_with("/N")) return;
  double scale = 0.1, middle = 0;
  if (path.ends_with("/avg_var")) {
    scale = 0.5;
    middle = 1;
  } else if (shape.rank() > 1) {
    scale = std::sqrt(6.0 / static_cast<double>(shape.count_per_item()));
  } else if (path.ends_with("/gamma")) {
    middle = 1;
  }
  scatter_values(values, scale);
  for (float& value : values.span<float>()) value += static_cast<float>(middle);
}

class TorchvisionModels : public ::testing::TestWithParam<const char*> {
 protected:
  TorchvisionModels() {
    set_cpu_threads(1);
    set_conv_algorithm(ConvAlgorithm::direct);
  }
};

TEST_P(TorchvisionModels, MatchNamesShapesAndScores) {
  const nlohmann::json& expected = torchvisions()[GetParam()];
  const std::int64_t side = expected["side"];
  const auto model = create_model(GetParam(), {10, {3, side, side}});
  model->initialize(1);
  const NameMap map = read_name_map("torchvision");
  std::map<std::string, std::vector<std::int64_t>> arrays;
  const auto add = [&](const std::string& path, const Tensor& values) {
    fill(path, values);
    arrays[map.names_in_file(path).at(0).name].assign(values.shape().begin(), values.shape().end());
  };
  for (const auto& [path, parameter] : model->parameters()) add(path, parameter->value());
  for (const auto& [path, buffer] : model->buffers()) add(path, *buffer);
  for (const auto& [path, parameter] : model->parameters()) parameter->value_changed();
  EXPECT_EQ(nlohmann::json(arrays), expected["arrays"]);
  const Parameter& last = *model->parameters().at(model->parameters().size() - 2).parameter;
  EXPECT_EQ(model->parameter_count() + 990 * (last.shape()[1] + 1), expected["count"]);

  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Tensor images = Tensor::empty({2, 3, side, side});
  scatter_values(images, 1);
  const Tensor scores = (*model)(Variable(images)).value().plain();
  const nlohmann::json& wanted = expected["scores"];
  ASSERT_EQ(static_cast<std::size_t>(scores.count()), wanted.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(static_cast<double>(scores.span<float>()[i]), wanted[i], 1e-4 * largest) << i;
}

INSTANTIATE_TEST_SUITE_P(All, TorchvisionModels,
                         ::testing::Values("tv_resnet18", "tv_resnet50", "tv_vgg16_bn",
                                           "tv_alexnet"),
                         [](const auto& info) { return std::string(info.param); });

// All arrays of all networks have names of their own in files, and come back from them.
TEST(NamesInFiles, LeadBackToTheModel) {
  const auto expect_names = [](const std::string& network, const Module& model,
                               const std::string& known) {
    const NameMap map = read_name_map(known);
    std::set<std::string> used;
    for (const std::string& path : array_names(model)) {
      const NameMap::Name in_file = map.names_in_file(path).at(0);
      EXPECT_TRUE(used.insert(in_file.name).second) << network << ": " << in_file.name;
      const auto back = map.names_in_model(in_file.name);
      EXPECT_TRUE(in_file.name == path || std::ranges::count(back, path, &NameMap::Name::name) == 1)
          << network << ": " << path;
    }
  };
  for (const ModelKind& kind : model_kinds()) {
    const std::int64_t side = std::max<std::int64_t>(kind.smallest, 32);
    const bool is_lenet = kind.name == "lenet";
    const std::int64_t fits = kind.name == "tv_alexnet" ? 224 : side;
    expect_names(kind.name,
                 *create_model(kind.name, {10, is_lenet ? Shape{1, 28, 28} : Shape{3, fits, fits}}),
                 "torchvision");
  }
  const Gpt gpt({.layers = 2, .heads = 1, .width = 4, .context = 3});
  expect_names("gpt", gpt, "gpt2");
  for (const std::string& path : array_names(gpt))
    EXPECT_EQ(read_name_map("gpt2").names_in_file(path)[0].name.find("transformer."),
              path == "scores/W" ? std::string::npos : 0U)
        << path;
  expect_names("seq2seq", Seq2seq({.layers = 2, .source_words = 5, .target_words = 6, .units = 4}),
               "torchvision");
}

TEST(TorchvisionImages, MustFitTheGrid) {
  for (const std::int64_t side : {224, 230}) create_model("tv_vgg16_bn", {10, {3, side, side}});
  expect_error(ErrorKind::config,
               {"tv_vgg16_bn: expected square images whose last feature map is",
                "multiple of 7 pixels (224 pixels fit), found 3x256x256"},
               [] {
                 create_model("tv_vgg16_bn", {10, {3, 256, 256}});
               });
  expect_error(ErrorKind::config, {"tv_alexnet", "multiple of 6", "3x256x256"}, [] {
    create_model("tv_alexnet", {10, {3, 256, 256}});
  });
}

}  // namespace
}  // namespace tasuki
