// Models whose set of parameters changes between updates.
#include <gtest/gtest.h>

#include "communicator/text_bytes.hpp"
#include "communicators.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

// With every communicator that sums.
class GrowingModel : public testing::WithOptimizer {
 protected:
  void set_up() override {
    WithOptimizer::set_up();
    optimizer_->setup(model_);
    update({{&model_[0], vector_of({mine(), mine()})}});
  }

  void update(const testing::Prescribed& gradients) {
    testing::update_of(
        *optimizer_, [&] { return loss_with_gradients(gradients); }, 1, communicator_->size());
  }

  // What each rank's update threw ("" for nothing), gathered.
  std::vector<std::string> errors_of_update(const testing::Prescribed& gradients) {
    std::string message;
    try {
      update(gradients);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disagreement);
      message = error.what();
    }
    std::vector<std::string> all;
    for (const Bytes& bytes : allgather_bytes(*communicator_, text_to_bytes(message)))
      all.emplace_back(bytes_to_text(bytes));
    return all;
  }

  Vectors model_{{2}}, more_{{20}};
};

TEST_P(GrowingModel, BroadcastsNewLayerAndKeepsEveryUpdate) {
  more_[0].value().fill(10 * mine());
  model_.add("more", more_);
  EXPECT_EQ(optimizer_->t(), 1);
  update({{&model_[0], vector_of({mine(), mine()})},
          {&more_[0], vector_of(std::vector<float>(20, mine()))}});
  EXPECT_EQ(optimizer_->t(), 2);
  EXPECT_EQ(optimizer_->arena().entries().size(), 2u);
  // Old parameter: speed kept, -mean after the first update, then half of it and another mean.
  for (const float value : values_of(model_[0].value())) EXPECT_FLOAT_EQ(value, -2.5f * mean_);
  // New parameter: rank 0's 10, no speed yet.
  for (const float value : values_of(more_[0].value())) EXPECT_FLOAT_EQ(value, 10 - mean_);
}

TEST_P(GrowingModel, MatchesStatesByPath) {
  model_.add("more", more_);
  update({{&more_[0], vector_of(std::vector<float>(20, mine()))}});
  const ParameterArena& arena = optimizer_->arena();
  for (const ParameterArena::Entry& entry : arena.entries()) {
    const float speed = entry.path == "a" ? -0.5f * mean_ : -mean_;
    for (const float value : values_of(optimizer_->states().of(*entry.parameter, "v")))
      EXPECT_FLOAT_EQ(value, speed) << entry.path;
  }
}

TEST_P(GrowingModel, RejectsGrowthOnOnlyOneRank) {
  const int last = communicator_->size() - 1;
  if (communicator_->rank() == last) model_.add("more", more_);
  const std::vector<std::string> errors =
      errors_of_update({{&model_[0], vector_of({mine(), mine()})}});
  for (const std::string& error : errors) {
    if (last == 0) {
      EXPECT_EQ(error, "");
    } else {
      EXPECT_EQ(error, errors[0]);
      EXPECT_NE(error.find(fmt::format("rank {} on ", last)), std::string::npos) << error;
      EXPECT_NE(error.find("has \"parameter more/a 20\""), std::string::npos) << error;
    }
  }
}

TEST_P(GrowingModel, RejectsRebuiltLayerOnOnlyOneRank) {
  // The same path and shape, but not where the optimizer put it.
  const int last = communicator_->size() - 1;
  if (communicator_->rank() == last) model_[0].move_to(Tensor::zeros({2}), Tensor::zeros({2}));
  const std::vector<std::string> errors =
      errors_of_update({{&model_[0], vector_of({mine(), mine()})}});
  for (const std::string& error : errors)
    EXPECT_EQ(error.find("changed since the last update") == std::string::npos, last == 0) << error;
}

INSTANTIATE_TEST_SUITE_P(Communicators, GrowingModel,
                         ::testing::ValuesIn(testing::summing_communicators()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
