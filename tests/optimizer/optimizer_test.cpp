// What an optimizer offers besides its rule.
#include "optimizer/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::coded_error_of;
using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

TEST(Optimizer, KnowsNamesAndRates) {
  const std::vector<std::array<std::string, 3>> expected = {{"sgd", "SGD", "lr"},
                                                            {"momentum_sgd", "MomentumSGD", "lr"},
                                                            {"nesterov", "NesterovAG", "lr"},
                                                            {"adam", "Adam", "alpha"},
                                                            {"adamw", "AdamW", "alpha"},
                                                            {"lamb", "LAMB", "alpha"},
                                                            {"rmsprop", "RMSprop", "lr"},
                                                            {"adagrad", "AdaGrad", "lr"},
                                                            {"adadelta", "AdaDelta", ""}};
  ASSERT_EQ(optimizer_names().size(), expected.size());
  for (const auto& [name, title, rate] : expected) {
    EXPECT_EQ(create_optimizer(name)->rule().name(), title);
    EXPECT_EQ(create_optimizer(name)->rule().rate_name(), rate);
  }
  EXPECT_EQ(
      coded_error_of([] { create_optimizer("adams"); }),
      "64: unknown optimizer \"adams\"; known ones: sgd, momentum_sgd, nesterov, adam, adamw, "
      "lamb, rmsprop, adagrad, adadelta");
}

TEST(Optimizer, ChecksHyperparameters) {
  const auto adam = create_optimizer("adam");
  adam->set("alpha", 0.25);
  EXPECT_EQ(adam->get("alpha"), 0.25);
  EXPECT_EQ(coded_error_of([&] { adam->set("lr", 1); }),
            "64: Adam has no hyper-parameter \"lr\"; it has alpha, beta1, beta2, eps, eta, "
            "weight_decay_rate");
  EXPECT_EQ(coded_error_of([&] { adam->get("momentum"); }),
            "64: Adam has no hyper-parameter \"momentum\"; it has alpha, beta1, beta2, eps, eta, "
            "weight_decay_rate");
  EXPECT_EQ(coded_error_of([&] { adam->set("beta1", 1); }),
            "64: Adam: beta1 = 1 is out of range; expected 0 <= beta1 < 1");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, infinity, -infinity, std::nan("")}) {
    EXPECT_NE(coded_error_of([&] { adam->set("alpha", bad); }), "") << bad;
    EXPECT_NE(coded_error_of([&] { adam->set("eps", bad); }), "") << bad;
  }
  // 0 / (sqrt(0) + 0) would not be a number.
  EXPECT_NE(coded_error_of([&] { adam->set("eps", 0); }), "");
  EXPECT_NE(coded_error_of([&] { adam->set("eps", 1e-50); }), "");
  EXPECT_EQ(adam->get("alpha"), 0.25);
  EXPECT_EQ(adam->get("eps"), 1e-8);
}

TEST(Optimizer, ReportsTheLastUpdatesLearningRate) {
  Vectors model({1});
  const auto adam = create_optimizer("adam");
  adam->set("eta", 0.5);  // no part of it in Chainer
  adam->setup(model);
  const auto update = [&] {
    adam->update([&] { return loss_with_gradients({{&model[0], vector_of({1})}}); }, 1);
  };
  EXPECT_EQ(adam->learning_rate(), std::nullopt);
  adam->set_t(8);
  EXPECT_EQ(adam->learning_rate(), std::nullopt);
  update();
  EXPECT_DOUBLE_EQ(adam->learning_rate().value(),
                   1e-3 * std::sqrt(1 - std::pow(0.999, 9)) / (1 - std::pow(0.9, 9)));
  adam->set("alpha", 1);
  EXPECT_LT(adam->learning_rate().value(), 1e-3) << "of the next update";
  adam->setup(model);
  EXPECT_EQ(adam->learning_rate(), std::nullopt);
  EXPECT_NE(coded_error_of([&] { adam->set_t(-1); }), "");
}

TEST(Optimizer, AveragesOverTheGlobalBatch) {
  Vectors model({2});
  const auto sgd = create_optimizer("sgd");
  sgd->set("lr", 1);
  sgd->setup(model);
  // The local mean of 3 examples is g; of 8 examples in all, the others contribute nothing here.
  testing::update_of_part(
      *sgd,
      [&] {
        return loss_with_gradients({{&model[0], vector_of({8, 16})}});
      },
      3, 8);
  EXPECT_EQ(values_of(model[0].value()), (std::vector<float>{-3, -6}));
}

TEST(Optimizer, ReturnsTheLoss) {
  Vectors model({2});
  const auto sgd = create_optimizer("sgd");
  sgd->setup(model);
  Variable loss = loss_with_gradients({{&model[0], vector_of({1, 1})}});
  loss.value().fill(7);
  EXPECT_EQ(sgd->update([&] { return loss; }, 1).item(), 7);
  EXPECT_FALSE(sgd->update([&] { return loss; }, 0).defined());
}

// A rank whose data were scattered and whose optimizer was given no communicator: its mean would be
// too small by the number of ranks.
TEST(Optimizer, RejectsScatteredBatchesWithoutACommunicator) {
  Vectors model({2});
  const auto sgd = create_optimizer("sgd");
  sgd->set("lr", 1);
  sgd->setup(model);
  const auto loss = [&] { return loss_with_gradients({{&model[0], vector_of({8, 16})}}); };
  for (const std::int64_t own : {3, 0}) {
    const std::string error = testing::error_of([&] { testing::update_of(*sgd, loss, own, 8); });
    EXPECT_NE(error.find(fmt::format("8 examples on all ranks, of which this rank has {}", own)),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("create_multi_node_optimizer"), std::string::npos) << error;
  }
  EXPECT_EQ(sgd->t(), 0);
  testing::update_of(*sgd, loss, 8, 8);
  EXPECT_EQ(values_of(model[0].value()), (std::vector<float>{-8, -16}));
}

// Two halves of a batch are the batch.
TEST(Optimizer, AccumulatesGradientsOfSeveralPasses) {
  Vectors model({2});
  const auto sgd = create_optimizer("sgd");
  sgd->set("lr", 1);
  sgd->setup(model);
  for (int t = 1; t <= 2; ++t) {
    StepScope step;
    for (const float g : {1.0F, 3.0F}) {
      const auto loss = [&] { return loss_with_gradients({{&model[0], vector_of({g, 2 * g})}}); };
      sgd->backward(sgd->forward(loss, 5), 5);
    }
    EXPECT_EQ(sgd->exchange(), 10);
    sgd->update(10);
    EXPECT_EQ(sgd->t(), t - 1) << "until the step has succeeded";
    step.succeeded();
    EXPECT_EQ(sgd->t(), t);
  }
  EXPECT_EQ(values_of(model[0].value()), (std::vector<float>{-4, -8}));
}

// The next one begins anew, and t has not moved.
TEST(Optimizer, LeavesNoStateAfterAFailedStep) {
  Vectors model({2});
  const auto momentum = create_optimizer("momentum_sgd");
  momentum->set("lr", 1);
  momentum->setup(model);
  const auto loss = [&] { return loss_with_gradients({{&model[0], vector_of({1, 2})}}); };
  EXPECT_NE(coded_error_of([&] { testing::update_of(*momentum, loss, 2, 1); }), "");
  EXPECT_EQ(momentum->t(), 0);
  EXPECT_EQ(momentum->learning_rate(), std::nullopt);
  momentum->update(loss, 1);
  EXPECT_EQ(momentum->t(), 1);
  EXPECT_EQ(values_of(model[0].value()), (std::vector<float>{-1, -2}));
}

// Elements [0, 16) by one thread and the others by another one, say.
TEST(Optimizer, CanSplitAnUpdateAmongThreads) {
  Vectors model({20}), same({20});
  std::vector<float> slope(20);
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = static_cast<float>(i) - 4.5F;
  for (Vectors* each : {&model, &same}) {
    const auto adam = create_optimizer("adam");
    adam->setup(*each);
    std::int64_t covered = 0;
    const SpreadUpdate in_two = [&](const ApplyRange& apply, std::int64_t count) {
      apply(16, count);
      apply(0, 16);
      covered = count;
    };
    StepScope step;
    adam->backward(adam->forward(
                       [&] {
                         return loss_with_gradients({{&(*each)[0], vector_of(slope)}});
                       },
                       1),
                   1);
    adam->update(adam->exchange(), each == &model ? in_two : SpreadUpdate());
    step.succeeded();
    EXPECT_EQ(covered, each == &model ? adam->arena().update_count() : 0);
  }
  EXPECT_EQ(values_of(model[0].value()), values_of(same[0].value()));
  EXPECT_NE(values_of(model[0].value())[19], 0);
}

TEST(Optimizer, TreatsUnusedParametersAsZero) {
  Vectors model({3, 3});
  const auto momentum = create_optimizer("momentum_sgd");
  momentum->set("lr", 1);
  momentum->set("momentum", 0.5);
  momentum->setup(model);
  const auto use = [&](std::size_t i) {
    momentum->update(
        [&, i] {
          return loss_with_gradients({{&model[i], vector_of({1, 2, 4})}});
        },
        1);
  };
  use(0);
  use(1);  // model[0] goes on with half its speed
  EXPECT_EQ(values_of(model[0].value()), (std::vector<float>{-1.5, -3, -6}));
  EXPECT_EQ(values_of(model[1].value()), (std::vector<float>{-1, -2, -4}));
}

TEST(Optimizer, ChangesNothingInAStepWithoutExamples) {
  Vectors model({4});
  model[0].value().fill(2);
  const auto adam = create_optimizer("adam");
  adam->add_hook(weight_decay(0.1));
  adam->setup(model);
  adam->update([]() -> Variable { throw std::logic_error("forward pass of an empty batch"); }, 0);
  EXPECT_EQ(adam->t(), 0);
  EXPECT_EQ(values_of(model[0].value()), std::vector<float>(4, 2));
}

TEST(Optimizer, FollowsGrowingModel) {
  Vectors model({2}), more({3});
  const auto momentum = create_optimizer("momentum_sgd");
  momentum->set("lr", 1);
  momentum->set("momentum", 0.5);
  momentum->setup(model);
  momentum->update([&] { return loss_with_gradients({{&model[0], vector_of({1, 1})}}); }, 1);
  model.add("more", more);
  more[0].value().fill(7);
  momentum->update([&] { return loss_with_gradients({{&more[0], vector_of({1, 2, 3})}}); }, 1);
  EXPECT_EQ(momentum->t(), 2);
  EXPECT_EQ(momentum->arena().entries().size(), 2u);
  EXPECT_TRUE(momentum->arena().matches(model));
  EXPECT_EQ(values_of(model[0].value()), (std::vector<float>{-1.5, -1.5}));
  EXPECT_EQ(values_of(more[0].value()), (std::vector<float>{6, 5, 4}));
}

TEST(Optimizer, ReleasesParameterMemoryFromBeforeSetup) {
  Vectors model({1 << 20});
  const auto optimizer = create_optimizer("sgd");
  optimizer->setup(model);
  EXPECT_LT(host_pool_statistics().cached, std::size_t{1} << 20);
}

TEST(Optimizer, RejectsInvalidUse) {
  Vectors model({2}), more({3});
  const auto sgd = create_optimizer("sgd");
  const auto loss = [&] { return loss_with_gradients({{&model[0], vector_of({1, 1})}}); };
  EXPECT_NE(coded_error_of([&] { sgd->update(loss, 1); }).find("call setup(model) first"),
            std::string::npos);
  EXPECT_NE(coded_error_of([&] { sgd->model(); }), "");
  sgd->setup(model);
  EXPECT_NE(coded_error_of([&] { testing::update_of(*sgd, loss, 2, 1); }), "");
  EXPECT_NE(coded_error_of([&] { testing::update_of(*sgd, loss, -1, 1); }), "");
  EXPECT_NE(coded_error_of([&] { sgd->update([] { return Variable(); }, 1); }), "");
  EXPECT_NE(coded_error_of([&] { sgd->exchange(); }).find("after backward()"), std::string::npos);
  EXPECT_NE(coded_error_of([&] { sgd->update(1); }).find("after backward()"), std::string::npos);
  const auto growing = [&] {
    model.add("more", more);
    return loss();
  };
  EXPECT_NE(coded_error_of([&] { sgd->update(growing, 1); }).find("during its forward pass"),
            std::string::npos);
}

}  // namespace
}  // namespace tasuki
