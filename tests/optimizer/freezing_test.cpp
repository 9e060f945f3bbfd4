// Frozen parameters: no gradient, no exchange, no update; and how they continue afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/text_bytes.hpp"
#include "communicators.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/normalization.hpp"
#include "optimizer/module_exchange.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::coded_error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

TEST(FrozenPaths, UseTheLastMatchingPattern) {
  FrozenPaths paths;
  EXPECT_FALSE(paths.has("a/W"));
  paths.freeze("**");
  paths.unfreeze("b/*");
  paths.freeze("b/W");
  EXPECT_TRUE(paths.has("a/W"));
  EXPECT_FALSE(paths.has("b/b"));
  EXPECT_TRUE(paths.has("b/W"));
  EXPECT_EQ(paths.text(), "- **\n+ b/*\n- b/W\n");
  const FrozenPaths read = FrozenPaths::parse(paths.text());
  EXPECT_EQ(read.text(), paths.text());
  EXPECT_TRUE(read.has("a/W"));
  EXPECT_FALSE(read.has("b/b"));
  paths.unfreeze("**");
  EXPECT_EQ(paths.text(), "");
  EXPECT_EQ(FrozenPaths::parse("").text(), "");
  EXPECT_THROW(FrozenPaths::parse("b/W"), Error);
}

// Three parameters a, b, c; each update of rank r with gradients r + 1, of which the mean is mean_.
class Freezing : public testing::WithOptimizer {
 protected:
  bool is_last() const { return rank() == size() - 1; }

  void update() {
    testing::update_of(
        *optimizer_,
        [&] {
          testing::Prescribed gradients;
          for (std::size_t i = 0; i < 3; ++i)
            gradients.emplace_back(
                &model_[i], vector_of(std::vector<float>(
                                static_cast<std::size_t>(model_[i].shape().count()), mine())));
          std::erase_if(gradients, [](const auto& each) { return each.first->is_frozen(); });
          return loss_with_gradients(gradients);
        },
        1, communicator_->size());
  }
  float value(std::size_t i) const { return values_of(model_[i].value()).back() / mean_; }

  Vectors model_{{2, 17, 3}};
};

TEST_P(Freezing, KeepsParametersInPlace) {
  model_[1].value().fill(10 * mine());
  optimizer_->freeze("b");
  optimizer_->setup(model_);
  EXPECT_FLOAT_EQ(values_of(model_[1].value())[0], 10);  // rank 0's
  EXPECT_TRUE(model_[1].is_frozen());
  update();
  update();
  EXPECT_FLOAT_EQ(value(0), -2.5F);
  EXPECT_FLOAT_EQ(values_of(model_[1].value())[16], 10);
  EXPECT_FLOAT_EQ(value(2), -2.5F);
  EXPECT_FALSE(model_[1].grad().defined());
}

TEST_P(Freezing, DropsStatesWhenLoadedFromASnapshot) {
  optimizer_->setup(model_);
  update();
  optimizer_->freeze("b");
  update();
  EXPECT_TRUE(optimizer_->states().has(model_[1]));
  optimizer_->freeze_only(FrozenPaths(optimizer_->frozen()));
  EXPECT_FALSE(optimizer_->states().has(model_[1]));
  EXPECT_TRUE(optimizer_->states().has(model_[0]));
}

TEST_P(Freezing, MovesParametersBehindTheExchangedRange) {
  optimizer_->freeze("b");
  optimizer_->setup(model_);
  const ParameterArena& arena = optimizer_->arena();
  ASSERT_EQ(arena.entries().size(), 2U);
  EXPECT_EQ(arena.entries()[0].path, "c");
  EXPECT_EQ(arena.entries()[1].path, "a");
  ASSERT_EQ(arena.frozen().size(), 1U);
  EXPECT_EQ(arena.frozen()[0].path, "b");
  EXPECT_EQ(arena.gradients().count(), 3 * 16);  // with the notices
  EXPECT_GE(arena.frozen()[0].offset, arena.gradients().count());
  EXPECT_EQ(arena.gradient_view().segments.size(), 3U);
  EXPECT_EQ(optimizer_->states().bytes(),
            static_cast<std::size_t>(arena.update_count()) * sizeof(float));
}

TEST_P(Freezing, KeepsStatesUntilUnfrozen) {
  optimizer_->setup(model_);
  update();
  optimizer_->freeze("b");
  update();
  update();
  EXPECT_FLOAT_EQ(value(1), -1);
  EXPECT_FLOAT_EQ(values_of(optimizer_->states().of(model_[1], "v"))[0], -mean_);
  optimizer_->unfreeze("b");
  update();
  // As in a second update: the speed of the first one halved, and a mean.
  EXPECT_FLOAT_EQ(value(1), -2.5F);
  EXPECT_FLOAT_EQ(value(0), -1 - 1.5F - 1.75F - 1.875F);
  EXPECT_EQ(optimizer_->t(), 4);
  EXPECT_TRUE(optimizer_->arena().frozen().empty());
}

TEST_P(Freezing, StartsWithZeroStatesAfterInitialFreezing) {
  optimizer_->freeze("b");
  optimizer_->setup(model_);
  update();
  EXPECT_FALSE(optimizer_->states().has(model_[1]));
  EXPECT_TRUE(optimizer_->states().has(model_[0]));
  optimizer_->unfreeze("**");
  update();
  EXPECT_FLOAT_EQ(value(1), -1);
}

TEST_P(Freezing, RejectsFreezingOnOnlyOneRank) {
  optimizer_->setup(model_);
  update();
  if (is_last()) optimizer_->freeze("b");
  const std::string error = coded_error_of([&] { update(); });
  const auto all = allgather_bytes(*communicator_, text_to_bytes(error));
  for (const Bytes& each : all) EXPECT_EQ(each, all[0]);
  if (communicator_->size() == 1) {
    EXPECT_EQ(error, "");
  } else {
    EXPECT_THAT(error, HasSubstr("has \"parameter b 17, frozen\" where rank 0 has \"parameter b "
                                 "17\""));
  }
}

TEST_P(Freezing, RejectsGroupsOnOnlyOneRank) {
  if (is_last()) optimizer_->add_group({.pattern = "b", .rate_factor = 2});
  const std::string error = coded_error_of([&] { optimizer_->setup(model_); });
  if (communicator_->size() == 1) {
    EXPECT_EQ(error, "");
  } else {
    EXPECT_THAT(error, HasSubstr("group b, rate x 2"));
  }
}

INSTANTIATE_TEST_SUITE_P(Communicators, Freezing,
                         ::testing::ValuesIn(testing::summing_communicators()),
                         [](const auto& info) { return info.param; });

// --- what is left of the graph ---

class TwoLayers : public Module {
 public:
  TwoLayers() : w1(add_parameter("w1", {4, 3}, draw)), w2(add_parameter("w2", {2, 4}, draw)) {
    initialize(1);
  }
  Parameter &w1, &w2;

 private:
  static void draw(const Tensor& value, std::uint64_t, std::uint64_t stream) {
    for (std::int64_t i = 0; i < value.count(); ++i)
      value.data<float>()[i] =
          0.1F * static_cast<float>((i * 7 + static_cast<std::int64_t>(stream)) % 5);
  }
};

// The same as a model in which the first layer's weights are constants.
TEST(FrozenLayers, ActAsConstants) {
  const auto train = [](bool freezes, const Tensor& x) {
    TwoLayers model;
    const Variable constant(model.w1.value().clone());
    const auto sgd = create_optimizer("momentum_sgd");
    if (freezes) sgd->freeze("w1");
    sgd->setup(model);
    for (int step = 0; step < 3; ++step)
      sgd->update(
          [&] {
            const Variable first = freezes ? model.w1 : constant;
            const Variable h = F::linear(Variable(x), first, {});
            return F::mean_squared_error(F::linear(h, model.w2, {}), Tensor::full({2, 2}, 1));
          },
          2);
    return std::pair(values_of(model.w1.value()), values_of(model.w2.value()));
  };
  const Tensor x = Tensor::full({2, 3}, 0.5);
  EXPECT_EQ(train(true, x), train(false, x));
}

TEST(FrozenLayers, UpdateRunningStatistics) {
  struct Net : Module {
    BatchNorm bn{3};
    Vectors head{{3}};
    Net() {
      add("bn", bn);
      add("head", head);
    }
  } model;
  model.initialize(0);
  const auto sgd = create_optimizer("sgd");
  sgd->freeze("bn/*");
  sgd->setup(model);
  const std::vector<float> before = values_of(*model.buffers()[0].tensor);
  sgd->update(
      [&] {
        model.bn(Variable(Tensor::full({4, 3}, 2)));
        return loss_with_gradients({{&model.head[0], vector_of({1, 1, 1})}});
      },
      4);
  EXPECT_NE(values_of(*model.buffers()[0].tensor), before);
}

TEST(FrozenLayers, RejectInvalidPatterns) {
  Vectors model({2, 3});
  const auto misspelt = create_optimizer("sgd");
  misspelt->freeze("later/**");
  EXPECT_THAT(coded_error_of([&] { misspelt->setup(model); }),
              HasSubstr("no parameter's path matches \"later/**\""));
  const auto sgd = create_optimizer("sgd");
  sgd->setup(model);
  EXPECT_THAT(coded_error_of([&] { sgd->freeze("c"); }),
              HasSubstr("no parameter's path matches \"c\""));
  sgd->freeze("**");
  const auto loss = [&] { return loss_with_gradients({{&model[0], vector_of({1, 1})}}); };
  EXPECT_THAT(coded_error_of([&] { sgd->update(loss, 1); }),
              HasSubstr("all parameters of the optimizer's model are frozen"));
}

TEST(FrozenLayers, AreExcludedFromMeanGradients) {
  const auto communicator = create_communicator("naive");
  Vectors model({2, 3});
  const auto sgd = create_optimizer("sgd");
  sgd->freeze("a");
  sgd->setup(model);
  model.clear_grads();
  loss_with_gradients({{&model[1], vector_of({1, 2, 3})}}).backward();
  mean_gradients(*communicator, model);
  EXPECT_THAT(values_of(model[1].grad()), ElementsAre(1, 2, 3));
}

TEST(FrozenLayers, AreRoundedLikeOtherLayers) {
  Vectors model({2, 3});
  model[0].value().fill(1.001);
  const auto sgd = create_optimizer("sgd");
  sgd->compute_in(DType::bfloat16);
  sgd->freeze("a");
  sgd->setup(model);
  EXPECT_EQ(values_of(model[0].value_as(DType::bfloat16).to(DType::float32))[0], 1);
}

}  // namespace
}  // namespace tasuki
