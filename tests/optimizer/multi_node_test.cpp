// Updates over several ranks: weights from rank 0, gradients averaged, differences between ranks
// said.
#include <gtest/gtest.h>

#include "communicator/bytes.hpp"
#include "communicator/registry.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

class MultiNode : public ::testing::Test {
 protected:
  std::unique_ptr<Optimizer> multi_node(const std::string& name = "sgd") {
    auto optimizer = create_multi_node_optimizer(create_optimizer(name), *communicator_);
    if (optimizer->rule().rate_name() == "lr") optimizer->set("lr", 1);
    optimizer->set_exchange({.mode = ExchangeMode::overlapped, .range_bytes = 64});
    return optimizer;
  }
  // A step of one example on each rank.
  void update(Optimizer& optimizer, const testing::Prescribed& gradients) const {
    testing::update_of(
        optimizer, [&] { return loss_with_gradients(gradients); }, 1, communicator_->size());
  }
  void expect_equal_on_all_ranks(const Tensor& tensor) const {
    for (const Tensor& other : communicator_->allgather(tensor))
      EXPECT_EQ(values_of(other), values_of(tensor));
  }
  // Setting up throws the same error on all ranks, which contains each of `texts`; with one rank
  // there is no other rank to disagree with.
  void expect_setup_disagrees(Optimizer& optimizer, Module& model,
                              const std::vector<std::string>& texts) const {
    std::string message;
    try {
      optimizer.setup(model);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disagreement);
      EXPECT_EQ(error.scope(), ErrorScope::every_rank);
      message = error.what();
    }
    const auto all = allgather_bytes(*communicator_, std::as_bytes(std::span(message)));
    for (const Bytes& other : all) EXPECT_EQ(other, all[0]);
    if (size_ == 1) {
      EXPECT_EQ(message, "");
    } else {
      for (const std::string& text : texts)
        EXPECT_NE(message.find(text), std::string::npos) << text << " in: " << message;
    }
  }
  // Whether this rank is the one that differs: the last, when there are several.
  bool is_odd_one() const { return rank_ > 0 && rank_ == size_ - 1; }
  std::string odd_one() const { return fmt::format("rank {} on ", size_ - 1); }

  const std::unique_ptr<Communicator> communicator_ = create_communicator("naive");
  const int rank_ = communicator_->rank(), size_ = communicator_->size();
  const float mean_rank_ = static_cast<float>(size_ - 1) / 2;
};

TEST_F(MultiNode, SetupBroadcastsRankZerosWeightsWithoutABatch) {
  Vectors model({5, 40});
  Tensor& buffer = model.add_buffer("statistics", Tensor::full({3}, 10 + rank_));
  model[0].value().fill(1 + rank_);
  model[1].value().fill(2 + rank_);
  const auto optimizer = multi_node();
  optimizer->setup(model);
  EXPECT_EQ(optimizer->t(), 0);
  EXPECT_EQ(values_of(model[0].value()), std::vector<float>(5, 1));
  EXPECT_EQ(values_of(model[1].value()), std::vector<float>(40, 2));
  EXPECT_EQ(values_of(buffer), std::vector<float>(3, 10));
}

// Each rank has a part of one model, with gradients of its own. An overflow in one part skips the
// step in all, so that they go on with one scale.
TEST_F(MultiNode, ModelPartsSkipStepsTogether) {
  Vectors part({5 + rank_});
  const auto optimizer = create_optimizer("sgd");
  optimizer->setup(part);
  optimizer->guard().scale_losses({.initial = 8, .rule = {}}, communicator_.get());
  const auto step = [&](float gradient) {
    optimizer->update(
        [&] {
          return loss_with_gradients({{&part[0], Tensor::full({5 + rank_}, gradient)}});
        },
        1);
  };
  step(1);
  EXPECT_EQ(optimizer->guard().loss_scaler()->scale(), 8);
  const std::vector<float> before = values_of(part[0].value());
  step(is_odd_one() || size_ == 1 ? INFINITY : 1);
  EXPECT_EQ(optimizer->guard().loss_scaler()->scale(), 4);
  EXPECT_EQ(values_of(part[0].value()), before);
  step(1);
  EXPECT_EQ(optimizer->guard().loss_scaler()->scale(), 4);
  EXPECT_NE(values_of(part[0].value()), before);
}

TEST_F(MultiNode, WrappingAfterSetupBroadcastsRankZerosWeights) {
  Vectors model({5});
  model[0].value().fill(1 + rank_);
  auto single = create_optimizer("sgd");
  single->setup(model);
  const auto optimizer = create_multi_node_optimizer(std::move(single), *communicator_);
  EXPECT_EQ(values_of(model[0].value()), std::vector<float>(5, 1));
}

// Twice, as a first exchange may differ from later ones.
TEST_F(MultiNode, UpdatesAverageGradients) {
  Vectors model({2, 3, 1});
  const auto optimizer = multi_node();
  optimizer->setup(model);
  const auto own = static_cast<float>(rank_);
  for (int t = 1; t <= 2; ++t) {
    update(*optimizer, {{&model[0], vector_of({own, own})},
                        {&model[1], vector_of({own + 1, own + 1, own + 1})},
                        {&model[2], vector_of({own + 2})}});
    EXPECT_EQ(optimizer->t(), t);
    for (std::size_t k = 0; k < 3; ++k)
      for (const float value : values_of(model[k].value()))
        EXPECT_FLOAT_EQ(value, -static_cast<float>(t) * (mean_rank_ + static_cast<float>(k)));
  }
}

TEST_F(MultiNode, ParametersUnusedEverywhereStay) {
  Vectors model({2, 3});
  model[1].value().fill(5);
  const auto optimizer = multi_node("adam");
  optimizer->setup(model);
  update(*optimizer, {{&model[0], vector_of({1, 1})}});
  EXPECT_EQ(values_of(model[1].value()), std::vector<float>(3, 5));
  EXPECT_NE(values_of(model[0].value()), std::vector<float>(2, 0));
}

TEST_F(MultiNode, ParametersUnusedOnOddRanksCountAsZero) {
  Vectors model({2, 3});
  const auto optimizer = multi_node();
  optimizer->setup(model);
  for (int t = 1; t <= 2; ++t) {
    testing::Prescribed gradients;
    gradients.emplace_back(&model[0], vector_of({1, 1}));
    const auto value = static_cast<float>(rank_ + 2);
    if (rank_ % 2 == 0) gradients.emplace_back(&model[1], vector_of({value, value, value}));
    update(*optimizer, gradients);
    float expected = 0;
    for (int rank = 0; rank < size_; rank += 2) expected += static_cast<float>(rank + 2);
    for (const float found : values_of(model[1].value()))
      EXPECT_NEAR(found, -expected * static_cast<float>(t) / static_cast<float>(size_), 1e-5);
  }
}

TEST_F(MultiNode, RanksWithoutExamplesParticipate) {
  Vectors model({3});
  const auto optimizer = multi_node();
  optimizer->setup(model);
  // Rank r has r examples; rank 0 has none and must not run the forward pass.
  const std::int64_t global = std::int64_t{size_} * (size_ - 1) / 2;
  const auto loss = [&]() -> Variable {
    if (rank_ == 0) throw std::logic_error("forward pass of an empty batch");
    return loss_with_gradients({{&model[0], vector_of({1, 2, 3})}});
  };
  testing::update_of(*optimizer, loss, rank_, global);
  optimizer->update(loss, rank_);  // ranks add up their examples themselves
  // With one rank there is no example at all.
  EXPECT_EQ(optimizer->t(), size_ > 1 ? 2 : 0);
  const float steps = size_ > 1 ? 2 : 0;
  const std::vector<float> found = values_of(model[0].value());
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(found[i], -steps * static_cast<float>(i + 1), 1e-6);
  expect_equal_on_all_ranks(model[0].value());
}

TEST_F(MultiNode, StepsWithoutExamplesChangeNothing) {
  Vectors model({3});
  model[0].value().fill(2);
  const auto optimizer = multi_node("adam");
  optimizer->add_hook(weight_decay(0.5));
  optimizer->setup(model);
  const auto none = []() -> Variable { throw std::logic_error("forward pass of no example"); };
  testing::update_of(*optimizer, none, 0, 0);
  optimizer->update(none, 0);
  EXPECT_EQ(optimizer->t(), 0);
  EXPECT_EQ(values_of(model[0].value()), std::vector<float>(3, 2));
}

TEST_F(MultiNode, HooksSeeTheAverage) {
  Vectors model({2});
  const auto optimizer = multi_node();
  optimizer->add_hook(gradient_clipping(5));
  optimizer->setup(model);
  // The average is (30, 40) on any number of ranks; clipped alone, ranks would give other sums.
  const auto own = static_cast<float>(rank_) - mean_rank_;
  update(*optimizer, {{&model[0], vector_of({30 + 100 * own, 40 - 50 * own})}});
  const std::vector<float> found = values_of(model[0].value());
  EXPECT_NEAR(found[0], -3, 1e-5);
  EXPECT_NEAR(found[1], -4, 1e-5);
  expect_equal_on_all_ranks(model[0].value());
}

TEST_F(MultiNode, NamesDifferentShapes) {
  Vectors model({5, is_odd_one() ? 7 : 6});
  expect_setup_disagrees(*multi_node(), model,
                         {odd_one(), "has \"parameter b 7\" where rank 0 has \"parameter b 6\""});
}

TEST_F(MultiNode, NamesMissingParameters) {
  Vectors model({5}), more({6});
  if (!is_odd_one()) model.add("more", more);
  expect_setup_disagrees(*multi_node(), model,
                         {odd_one(), "where rank 0 has \"parameter more/a 6\""});
}

TEST_F(MultiNode, NamesDifferentRules) {
  Vectors model({5});
  expect_setup_disagrees(
      *multi_node(is_odd_one() ? "adam" : "adamw"), model,
      {odd_one(), "has \"optimizer Adam\" where rank 0 has \"optimizer AdamW\""});
}

TEST_F(MultiNode, NamesDifferentSettings) {
  Vectors model({5});
  const auto optimizer = multi_node("adam");
  if (is_odd_one()) optimizer->set("beta1", 0.5);
  expect_setup_disagrees(
      *optimizer, model,
      {odd_one(),
       "has \"hyper-parameter beta1 = 0.5\" where rank 0 has \"hyper-parameter beta1 = 0.9\""});
}

TEST_F(MultiNode, NamesDifferentHooks) {
  Vectors model({5});
  const auto optimizer = multi_node();
  optimizer->add_hook(weight_decay(rank_ == 0 ? 0.25 : 0.5));
  expect_setup_disagrees(
      *optimizer, model,
      {"rank 1 on ", "has \"hook WeightDecay(0.5)\" where rank 0 has \"hook WeightDecay(0.25)\""});
}

}  // namespace
}  // namespace tasuki
