// Double buffering: an update uses the gradients of the step before, for every kind of
// communicator.
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "communicators.hpp"
#include "core/stop_request.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

class DoubleBuffering : public testing::WithCommunicator {
 protected:
  struct Run {
    Run(Communicator& communicator, ExchangeMode mode, const std::string& rule) {
      optimizer = create_multi_node_optimizer(create_optimizer(rule), communicator);
      optimizer->set_exchange({.mode = mode});
      optimizer->setup(model);
      optimizer->add_hook(gradient_clipping(2));
    }
    std::vector<float> weights() const {
      std::vector<float> all = values_of(model[0].value());
      const std::vector<float> rest = values_of(model[1].value());
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    }

    Vectors model{{5, 300}};
    std::unique_ptr<Optimizer> optimizer;
  };

  // Gradients that depend on step and rank alone; ranks have other numbers of examples, at times
  // none.
  void step(Run& run, int number, bool knows_examples = true) const {
    const auto examples_of = [&](int rank) { return std::int64_t{(number + rank) % 3}; };
    std::int64_t all = 0;
    for (int each = 0; each < size(); ++each) all += examples_of(each);
    const auto value = static_cast<float>(number + 1) / static_cast<float>(rank() + 2);
    const auto loss = [&] {
      return loss_with_gradients(
          {{&run.model[0], vector_of({value, -value, 1, 0, value / 3})},
           {&run.model[1], Tensor::full({300}, static_cast<float>(number) - value)}});
    };
    const std::int64_t own = examples_of(rank());
    StepScope scope;
    const Variable found = run.optimizer->forward(loss, own);
    run.optimizer->update(run.optimizer->backward_and_exchange(
        found, own, knows_examples ? std::optional(all) : std::nullopt));
    scope.succeeded();
  }
};

TEST_P(DoubleBuffering, IsOneStepBehindUntilFlushed) {
  if (size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  for (const bool knows_examples : {true, false}) {
    Run stale(*communicator_, ExchangeMode::double_buffered, "adam");
    Run whole(*communicator_, ExchangeMode::whole, "adam");
    const std::vector<float> initial = stale.weights();
    step(stale, 0, knows_examples);
    EXPECT_EQ(stale.weights(), initial);
    EXPECT_EQ(stale.optimizer->t(), 0);
    for (int i = 1; i < 12; ++i) {
      step(whole, i - 1);
      step(stale, i, knows_examples);
      communicator_->barrier();  // which is free between steps
      ASSERT_EQ(stale.weights(), whole.weights()) << "step " << i;
      EXPECT_EQ(stale.optimizer->t(), i);
      if (i % 5 != 0) continue;
      step(whole, i);
      stale.optimizer->flush();
      stale.optimizer->flush();  // does nothing
      ASSERT_EQ(stale.weights(), whole.weights()) << "flushed after step " << i;
      // The pipeline starts again.
      step(stale, ++i, knows_examples);
      ASSERT_EQ(stale.weights(), whole.weights());
    }
  }
}

TEST_P(DoubleBuffering, PassesStopRequestsToAllRanks) {
  if (size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  Run run(*communicator_, ExchangeMode::double_buffered, "sgd");
  const StoppableScope stoppable;
  step(run, 0);
  if (rank() == 0) request_stop();
  step(run, 1);
  EXPECT_FALSE(run.optimizer->step_exchange().asked_to_stop());
  step(run, 2);
  EXPECT_TRUE(run.optimizer->step_exchange().asked_to_stop());
}

TEST_P(DoubleBuffering, ContinuesOnOtherRanks) {
  if (size() < 3) GTEST_SKIP() << "fewer than three ranks cannot be divided";
  const auto part = communicator_->split(rank() % 2, rank());
  Run run(*communicator_, ExchangeMode::double_buffered, "sgd");
  step(run, 0);
  run.optimizer = create_multi_node_optimizer(std::move(run.optimizer), *part);
  EXPECT_EQ(run.optimizer->t(), 1) << "the gradients of all ranks are used";
  const float value = 0.1F * static_cast<float>(rank() + 1);  // which is not clipped
  const auto loss = [&] {
    return loss_with_gradients({{&run.model[0], Tensor::full({5}, value)}});
  };
  const Tensor before = run.model[0].value().clone();
  for (int i = 0; i < 3; ++i) run.optimizer->update(loss, 1);
  EXPECT_EQ(run.optimizer->t(), part->size() == 1 ? 4 : 3);
  run.optimizer->flush();
  EXPECT_EQ(run.optimizer->t(), 4);
  // Three updates by the mean gradient of the new ranks.
  const Tensor sum = Tensor::full({1}, value);
  part->allreduce(sum);
  const float mean = sum.item() / static_cast<float>(part->size());
  const float change = -3 * mean * static_cast<float>(run.optimizer->get("lr"));
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(run.model[0].value().data<float>()[i] - before.data<float>()[i], change, 1e-5);
}

TEST_P(DoubleBuffering, LosesNothingWhenTheModelChangesOnAllRanks) {
  Run stale(*communicator_, ExchangeMode::double_buffered, "momentum_sgd");
  Run whole(*communicator_, ExchangeMode::whole, "momentum_sgd");
  Vectors more_of_stale({7}), more_of_whole({7});
  for (int i = 0; i < 5; ++i) {
    if (i == 3) {
      stale.model.add("more", more_of_stale);
      whole.model.add("more", more_of_whole);
    }
    step(stale, i);
    step(whole, i);
  }
  stale.optimizer->flush();
  EXPECT_EQ(stale.weights(), whole.weights());
  EXPECT_EQ(stale.optimizer->t(), whole.optimizer->t());
}

TEST_P(DoubleBuffering, NamesRankWhoseModelChanged) {
  if (size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  Run run(*communicator_, ExchangeMode::double_buffered, "sgd");
  Vectors more({7});
  for (int i = 0; i < 4; ++i) step(run, i);
  if (rank() == 0) run.model.add("more", more);
  // Before ranks meet elsewhere, as in a report of values of all ranks.
  const auto error = testing::caught([&] {
    step(run, 4);
    communicator_->barrier();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::disagreement);
}

TEST_P(DoubleBuffering, RejectsLossScaling) {
  if (size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  Run run(*communicator_, ExchangeMode::double_buffered, "sgd");
  testing::expect_error(ErrorKind::usage, {"loss scaling"},
                        [&] { run.optimizer->guard().scale_losses({}); });
}

// Knows whether gradients that it sums are in memory that it has allocated.
class KnowsItsMemory : public Communicator {
 public:
  using Communicator::Communicator;
  static inline std::atomic<bool> has_summed_its_own = false;

 protected:
  std::shared_ptr<Storage> allocate_memory(std::size_t bytes, Device device) override {
    auto memory = Communicator::allocate_memory(bytes, device);
    own_.insert(memory);
    return memory;
  }
  void sum(const GradientView& gradients) override {
    has_summed_its_own = own_.contains(gradients.arena.storage());
    Communicator::sum(gradients);
  }

 private:
  std::set<std::shared_ptr<Storage>> own_;  // and keeps it, so that no other has its address
};
const CommunicatorRegistration<KnowsItsMemory> registration{"knows_its_memory", "for a test",
                                                            "any MPI"};

class DoubleBufferingMemory : public DoubleBuffering {};

// What one communicator has allocated is slow for another.
TEST_P(DoubleBufferingMemory, BelongsToTheCommunicatorThatSums) {
  if (size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  Run run(*communicator_, ExchangeMode::double_buffered, "sgd");
  for (int i = 0; i < 3; ++i) step(run, i);
  run.optimizer->flush();
  EXPECT_TRUE(KnowsItsMemory::has_summed_its_own);
  const std::vector<float> before = run.weights();
  run.optimizer->set_exchange({.mode = ExchangeMode::whole});
  step(run, 3);
  EXPECT_TRUE(KnowsItsMemory::has_summed_its_own);
  EXPECT_NE(run.weights(), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DoubleBufferingMemory, ::testing::Values("knows_its_memory"));
INSTANTIATE_TEST_SUITE_P(Kinds, DoubleBuffering,
                         ::testing::Values("naive", "flat", "single_node", "hierarchical",
                                           "two_dimensional", "double"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
