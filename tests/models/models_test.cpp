// Models: known parameter counts, Chainer's keys, shapes, and that a step of training reaches every
// parameter and lowers the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/catalog.hpp"
#include "models/lenet.hpp"
#include "models/resnet.hpp"
#include "models/wide_resnet.hpp"
#include "nn/classifier.hpp"
#include "nn/random.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::expect_error;

const std::vector<std::string> names = {"lenet",    "cnn10",    "vgg_small", "vgg16_bn",
                                        "resnet20", "resnet50", "wrn_28_10"};

Shape image_for(const std::string& name) {
  return name == "lenet" ? Shape{1, 28, 28} : Shape{3, 32, 32};
}

std::vector<std::string> paths_of(const Module& module) {
  std::vector<std::string> found;
  for (const auto& named : module.parameters()) found.push_back(named.path);
  return found;
}

bool has_path(const Module& module, const std::string& path) {
  const auto paths = paths_of(module);
  return std::ranges::find(paths, path) != paths.end();
}

Tensor normal_images(const Shape& shape) {
  Tensor images = Tensor::empty(shape);
  initializers::normal(1)(images, 1, 2);
  return images;
}

double norm_of(const Tensor& tensor) {
  double squares = 0;
  for (const float value : tensor.span<float>())
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

// Quick on a busy machine too: nothing waits for a second thread, nothing is timed.
class Models : public ::testing::Test {
 protected:
  Models() {
    set_cpu_threads(1);
    set_conv_algorithm(ConvAlgorithm::direct);
  }
};

TEST_F(Models, HaveKnownParameterCounts) {
  const std::vector<std::pair<std::string, std::int64_t>> known = {
      {"lenet", 129'068},       {"cnn10", 1'923'914},  {"vgg_small", 5'941'066},
      {"vgg16_bn", 14'724'042}, {"resnet20", 272'474}, {"wrn_28_10", 36'479'194}};
  for (const auto& [name, count] : known)
    EXPECT_EQ(create_model(name, {10, image_for(name)})->parameter_count(), count) << name;
  EXPECT_EQ(create_model("resnet50", {1000, {3, 224, 224}})->parameter_count(), 25'557'096);
  // Figures of the form for small images: the stem is 3 x 3, the head has 10 classes.
  EXPECT_EQ(create_model("resnet50")->parameter_count(), 23'520'842);
}

TEST_F(Models, ParameterCountsFollowClassesAndChannels) {
  for (const std::string& name : names) {
    const auto few = create_model(name, {10, image_for(name)});
    const auto many = create_model(name, {100, image_for(name)});
    const Shape head = few->parameters().at(few->parameters().size() - 2).parameter->shape();
    ASSERT_EQ(head[0], 10) << name;
    EXPECT_EQ(many->parameter_count() - few->parameter_count(), 90 * (head[1] + 1)) << name;
    if (name == "lenet") continue;
    const Shape first = few->parameters().front().parameter->shape();
    const auto grey = create_model(name, {10, {1, 32, 32}});
    EXPECT_EQ(few->parameter_count() - grey->parameter_count(), 2 * first[0] * first[2] * first[3])
        << name;
  }
}

TEST_F(Models, UseChainersKeys) {
  EXPECT_EQ(paths_of(*lenet()),
            (std::vector<std::string>{"conv1/W", "conv1/b", "conv2/W", "conv2/b", "fc1/W", "fc1/b",
                                      "fc2/W", "fc2/b"}));
  const auto vgg = create_model("vgg16_bn");
  for (const char* path : {"block1_1/conv/W", "block1_1/bn/gamma", "block5_3/bn/beta", "fc/b"})
    EXPECT_TRUE(has_path(*vgg, path)) << path;
  EXPECT_FALSE(has_path(*vgg, "block1_1/conv/b"));
  const auto resnet = create_model("resnet50", {1000, {3, 224, 224}});
  for (const char* path :
       {"conv1/W", "conv1/b", "bn1/gamma", "res2/0/conv4/W", "res2/2/bn3/beta", "fc/W"})
    EXPECT_TRUE(has_path(*resnet, path)) << path;
  EXPECT_FALSE(has_path(*resnet, "res2/1/conv4/W")) << "only the first block has a projection";
  EXPECT_TRUE(has_path(*create_model("wrn_28_10"), "group3/block4/conv2/W"));
  for (const std::string& name : names) {
    const auto paths = paths_of(*create_model(name, {10, image_for(name)}));
    EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), paths.size()) << name;
  }
}

TEST_F(Models, InitializeWeightsAsInTheirPapers) {
  const auto deviation_of = [](const Tensor& tensor) {
    return norm_of(tensor) / std::sqrt(static_cast<double>(tensor.count()));
  };
  const auto small = lenet();
  small->initialize(1);
  EXPECT_NEAR(deviation_of(small->parameters()[2].parameter->value()), 0.01, 0.0003);
  EXPECT_EQ(norm_of(small->parameters()[3].parameter->value()), 0);
  const auto net = create_model("resnet20");
  net->initialize(1);
  for (const auto& [path, parameter] : net->parameters()) {
    if (path != "res4/2/conv2/W") continue;
    EXPECT_NEAR(deviation_of(parameter->value()), std::sqrt(2.0 / (64 * 9)), 0.002);
  }
}

// Forward, backward and update with plain SGD on four images, twice: every parameter gets a
// gradient, and the loss of the same images is lower after the first step.
void expect_learns(std::unique_ptr<Layer> net, const Shape& image, double rate) {
  Classifier model(std::move(net));
  model.initialize(1);
  const auto optimizer = create_optimizer("sgd");
  optimizer->setup(model);
  optimizer->set("lr", rate);
  const Tensor x = normal_images({4, image[0], image[1], image[2]});
  const std::int32_t labels[] = {0, 1, 2, 1};
  const Tensor t = Tensor::from(std::span<const std::int32_t>(labels), {4});
  std::vector<double> losses;
  for (int i = 0; i < 2; ++i) {
    RandomKeys keys(7);
    const auto pass = [&] {
      const RandomScope random(keys);
      Variable loss = model(Variable(x), t).loss;
      losses.push_back(loss.value().item());
      return loss;
    };
    optimizer->update(pass, 4);
    for (const auto& [path, parameter] : model.parameters())
      EXPECT_GT(norm_of(parameter->grad()), 0) << path;
  }
  EXPECT_LT(losses[1], losses[0]);
}

TEST_F(Models, EveryKindLearns) {
  const std::vector<std::pair<std::string, double>> rates = {
      {"lenet", 0.2},     {"cnn10", 0.01},    {"vgg_small", 0.001},
      {"vgg16_bn", 0.01}, {"resnet20", 0.01}, {"resnet50", 0.001}};
  for (const auto& [name, rate] : rates) {
    SCOPED_TRACE(name);
    // The smallest that five poolings leave something of, where the model is not for one size.
    const Shape image = name == "lenet" ? image_for(name) : Shape{3, 17, 17};
    expect_learns(create_model(name, {3, image}), image, rate);
  }
}

TEST_F(Models, WideResNetLearns) {
  expect_learns(wide_resnet(10, 2, 3), {3, 16, 16}, 0.01);
}

// Images of other sizes, an odd one among them: what is left of it is averaged.
TEST_F(Models, AcceptImagesOfOtherSizes) {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  for (const char* name : {"cnn10", "vgg_small", "vgg16_bn", "resnet20", "resnet50"}) {
    const auto model = create_model(name, {7, {3, 37, 29}});
    EXPECT_EQ((*model)(Variable(normal_images({2, 3, 37, 29}))).shape(), (Shape{2, 7})) << name;
  }
  const auto large = create_model("resnet50", {5, {3, 96, 96}});
  EXPECT_EQ(large->parameters().front().parameter->shape(), (Shape{64, 3, 7, 7}));
  EXPECT_EQ((*large)(Variable(normal_images({1, 3, 96, 96}))).shape(), (Shape{1, 5}));
}

TEST_F(Models, GiveNoScoresForAnEmptyBatch) {
  for (const char* name : {"cnn10", "vgg_small", "vgg16_bn", "resnet20"}) {
    const auto model = create_model(name);
    EXPECT_EQ((*model)(Variable(Tensor::empty({0, 3, 32, 32}))).shape(), (Shape{0, 10})) << name;
  }
}

TEST(ModelCatalog, RejectsInvalidModels) {
  expect_error(ErrorKind::usage, {"unknown model 'cnn11'; expected one of lenet, cnn10"},
               [] { create_model("cnn11"); });
  expect_error(ErrorKind::config, {"1x28x28, found 3x32x32"}, [] { create_model("lenet"); });
  expect_error(ErrorKind::config, {"channels x H x W"}, [] { create_model("cnn10", {10, {784}}); });
  expect_error(ErrorKind::internal, {"6 n + 4"}, [] { wide_resnet(27, 10); });
  expect_error(ErrorKind::internal, {"6 n + 2"}, [] { small_resnet(21); });
}

TEST(ModelCatalog, AcceptsUserModels) {
  register_model({"own", "a test's", [](const ModelTask& task) { return lenet(task.classes); }});
  EXPECT_EQ(create_model("own", {4, {1, 28, 28}})->parameters().back().parameter->shape(),
            (Shape{4}));
  EXPECT_EQ(model_kinds().back().summary, "a test's");
  expect_error(ErrorKind::internal, {"registered already"}, [] {
    register_model({"own", "", {}});
  });
}

}  // namespace
}  // namespace tasuki
