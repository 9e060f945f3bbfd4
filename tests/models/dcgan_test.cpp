// What the networks of a GAN learn from one another.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "errors.hpp"
#include "tasuki/models/dcgan.hpp"
#include "tasuki/nn/functions/add.hpp"
#include "tasuki/nn/initializer.hpp"
#include "tasuki/nn/random.hpp"
#include "tasuki/tensor/cpu/convolution.hpp"

namespace tasuki {
namespace {

const DcganSettings small{.image = {1, 8, 8}, .hidden = 5, .channels = 8};

using Gradients = std::map<std::string, std::vector<float>>;

// Of the loss that `choose` makes of both; weights, images and random numbers are always the same.
template <class Choose>
Gradients gradients_of(const Choose& choose) {
  set_conv_algorithm(ConvAlgorithm::direct);
  Dcgan gan(small);
  gan.initialize(3);
  const Tensor images = Tensor::empty({4, 1, 8, 8});
  initializers::uniform(1)(images, 1, 2);
  RandomKeys keys(7);
  const std::int64_t ids[] = {4, 9, 2, 7};
  keys.follow(1, ids);
  const RandomScope scope(keys);
  choose(dcgan_losses(gan, small, images)).backward();
  Gradients gradients;
  for (const Module::NamedParameter& named : gan.parameters()) {
    named.parameter->fill_missing_grad();
    const auto values = named.parameter->grad().span<float>();
    gradients[named.path].assign(values.begin(), values.end());
  }
  return gradients;
}

TEST(Dcgan, EachModelLearnsFromItsOwnLoss) {
  const Gradients both =
      gradients_of([](const DcganLosses& losses) { return losses.dis + losses.gen; });
  const Gradients dis = gradients_of([](const DcganLosses& losses) { return losses.dis; });
  const Gradients gen = gradients_of([](const DcganLosses& losses) { return losses.gen; });
  const auto is_zero = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return value == 0; });
  };
  for (const auto& [path, values] : both) {
    const bool is_generator = path.starts_with("gen/");
    EXPECT_EQ(values, (is_generator ? gen : dis).at(path)) << path;
    EXPECT_TRUE(is_zero((is_generator ? dis : gen).at(path))) << path;
  }
  EXPECT_FALSE(is_zero(both.at("gen/dc1/W")));
  EXPECT_FALSE(is_zero(both.at("dis/c0_0/W")));
}

TEST(Dcgan, HasTheNamesOfChainersExample) {
  const Dcgan gan({.channels = 16});
  std::vector<std::string> paths;
  for (const Module::NamedParameter& named : gan.parameters())
    if (named.path.ends_with("/W"))
      paths.push_back(named.path + " " + named.parameter->shape_text());
  EXPECT_EQ(paths,
            (std::vector<std::string>{
                "gen/l0/W 256x100", "gen/dc1/W 16x8x4x4", "gen/dc2/W 8x4x4x4", "gen/dc3/W 4x2x4x4",
                "gen/dc4/W 2x3x3x3", "dis/c0_0/W 2x3x3x3", "dis/c0_1/W 4x2x4x4",
                "dis/c1_0/W 4x4x3x3", "dis/c1_1/W 8x4x4x4", "dis/c2_0/W 8x8x3x3",
                "dis/c2_1/W 16x8x4x4", "dis/c3_0/W 16x16x3x3", "dis/l4/W 1x256"}));
}

TEST(Dcgan, AdaptsToTheImages) {
  for (const std::int64_t side : {8, 28, 32, 40, 64}) {
    const DcganSettings settings{.image = {3, side, side}, .hidden = 4, .channels = 16};
    Dcgan gan(settings);
    gan.initialize(1);
    const TrainingMode evaluation(false);
    const Variable images = gan.gen(Variable(Tensor::zeros({2, 4})));
    EXPECT_EQ(images.shape(), (Shape{2, 3, side, side}));
    EXPECT_EQ(gan.dis(images).shape(), (Shape{2, 1}));
  }
  EXPECT_EQ(dcgan_stages(28), 2);
  EXPECT_EQ(dcgan_stages(32), 3);
  for (const std::int64_t side : {4, 7, 18, 30, 33})
    testing::expect_error(ErrorKind::usage, {"found " + std::to_string(side)},
                          [&] { dcgan_stages(side); });
}

}  // namespace
}  // namespace tasuki
