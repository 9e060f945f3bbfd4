// What the networks of a GAN learn from one another.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "models/dcgan.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/initializer.hpp"
#include "nn/module.hpp"
#include "nn/random.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/late_values.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

const DcganSettings small_dcgan{.image = {1, 8, 8}, .hidden = 5, .channels = 8};

using Gradients = std::map<std::string, std::vector<float>>;

struct Gan {
  Dcgan model{small_dcgan};
  RandomKeys keys{7};
  Tensor images = Tensor::empty({4, 1, 8, 8});

  Gan() {
    set_conv_algorithm(ConvAlgorithm::direct);
    model.initialize(3);
    initializers::uniform(1)(images, 1, 2);
    const std::int64_t ids[] = {4, 9, 2, 7};
    keys.follow(1, ids);
  }
  // Weights, images and random numbers are always the same.
  DcganLosses losses() {
    const RandomScope scope(keys);
    return dcgan_losses(model, small_dcgan, images);
  }
};

Gradients gradients_of(const Module& model) {
  Gradients gradients;
  for (const Module::NamedParameter& named : model.parameters()) {
    named.parameter->fill_missing_grad();
    const auto values = named.parameter->grad().span<float>();
    gradients[named.path].assign(values.begin(), values.end());
  }
  return gradients;
}

bool are_zero(const Gradients& gradients) {
  return std::ranges::all_of(gradients, [](const auto& named) {
    return std::ranges::all_of(named.second, [](float value) { return value == 0; });
  });
}

// The other model's parameters are constants while the graph is made.
Gradients gradients_alone(bool of_generator) {
  Gan gan;
  const ConstantParameters constants(of_generator ? static_cast<Module&>(gan.model.dis)
                                                  : gan.model.gen);
  const DcganLosses losses = gan.losses();
  (of_generator ? losses.gen : losses.dis).backward(4);
  return of_generator ? gradients_of(gan.model.gen) : gradients_of(gan.model.dis);
}

TEST(Dcgan, GivesEachModelOnlyItsOwnLossGradients) {
  Gan gan;
  const auto gen = create_optimizer("sgd"), dis = create_optimizer("sgd");
  gen->setup(gan.model.gen);
  dis->setup(gan.model.dis);
  dis->keep_graphs(true);  // the first pass
  const StepScope step;
  DcganLosses losses;
  gen->forward(
      [&] {
        losses = gan.losses();
        return losses.gen;
      },
      4);
  dis->forward([&] { return losses.dis; }, 4);
  dis->backward(losses.dis, 4);
  EXPECT_TRUE(are_zero(gradients_of(gan.model.gen)));
  const Gradients found = gradients_of(gan.model.dis);
  gen->backward(losses.gen, 4);
  EXPECT_EQ(gradients_of(gan.model.dis), found);
  EXPECT_EQ(found, gradients_alone(false));
  EXPECT_EQ(gradients_of(gan.model.gen), gradients_alone(true));
  EXPECT_FALSE(are_zero(gradients_of(gan.model.gen)));
}

// Real and generated images once each, as in Chainer: so its running averages say.
TEST(Dcgan, DiscriminatorSeesEachImageOnce) {
  Gan gan, twin;
  gan.losses();
  {
    const RandomScope scope(twin.keys);
    twin.model.dis(Variable(twin.images));
    const Tensor noise = F::uniform_noise({4, small_dcgan.hidden}, DType::float32, Device::cpu());
    twin.model.dis(twin.model.gen(Variable(noise)));
  }
  const auto found = gan.model.buffers(), expected = twin.model.buffers();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].tensor->dtype() != DType::float32) continue;
    const auto values = found[i].tensor->span<float>(), other = expected[i].tensor->span<float>();
    EXPECT_TRUE(std::ranges::equal(values, other)) << found[i].path;
  }
}

TEST(Dcgan, UsesChainersParameterNames) {
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

TEST(Dcgan, AdaptsToImageSize) {
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
