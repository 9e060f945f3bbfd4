// Iterations of several batches: k batches of b examples train like one batch of k * b.
#include <gtest/gtest.h>

#include <numeric>

#include "communicator/registry.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/sequential.hpp"
#include "same_run.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"
#include "training/standard_updater.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::share_of;
using testing::SmallRun;
using testing::synthetic;
using testing::TemporaryFolder;
using testing::Unknowing;

class Accumulate : public ::testing::Test {
 protected:
  struct Wanted {
    std::int64_t batch = 7, accumulate = 1;
    bool is_lazy = false, knows_sizes = true;
  };
  struct Done {
    std::vector<float> weights;
    std::vector<double> losses;  // of each iteration, over all ranks
    std::int64_t t = 0, per_epoch = 0;
  };

  // Two epochs of 97 examples. Masks of dropout depend on the example alone, not on its batch.
  Done trained(const Wanted& wanted) {
    const auto inputs = [&](std::int64_t n) {
      return wanted.is_lazy ? std::nullopt : std::optional(n);
    };
    auto net = std::make_unique<Sequential>();
    net->append("l1", std::make_unique<Linear>(inputs(12), 8)).append(F::relu);
    net->append([](const Variable& x) { return F::dropout(x, 0.3F); });
    net->append("l2", std::make_unique<Linear>(inputs(8), 4));
    Classifier model(std::move(net));
    model.initialize(1);
    const auto optimizer =
        create_multi_node_optimizer(create_optimizer("momentum_sgd"), *communicator_);
    optimizer->setup(model);
    optimizer->add_hook(gradient_clipping(0.5));
    std::unique_ptr<Iterator> batches =
        create_shuffled_iterator(share_of(synthetic(97), communicator_.get(), 0), wanted.batch, 3);
    if (!wanted.knows_sizes) batches = std::make_unique<Unknowing>(std::move(batches));
    StandardUpdater::Settings settings;
    settings.accumulate = wanted.accumulate;
    StandardUpdater updater(std::move(batches), *optimizer, classification_loss(model), settings);
    Done done;
    while (updater.epoch() < 2) {
      Observation seen;
      updater.update(seen);
      EXPECT_EQ(updater.steps_to_here(), updater.iteration());
      done.losses.push_back(seen.over_ranks(communicator_.get()).mean("main/loss").value());
    }
    EXPECT_TRUE(updater.is_new_epoch());
    EXPECT_EQ(updater.times().at(0).steps, updater.iteration());
    const auto values = optimizer->arena().values().span<float>();
    done.weights.assign(values.begin(), values.end());
    done.t = optimizer->t();
    done.per_epoch = updater.steps_per_epoch();
    return done;
  }
  static void expect_equal(const Done& a, const Done& b) {
    EXPECT_EQ(a.t, b.t);
    EXPECT_EQ(a.per_epoch, b.per_epoch);
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (std::size_t i = 0; i < a.losses.size(); ++i)
      EXPECT_NEAR(a.losses[i], b.losses[i], 1e-6) << "iteration " << i;
    ASSERT_EQ(a.weights.size(), b.weights.size());
    for (std::size_t i = 0; i < a.weights.size(); ++i)
      EXPECT_NEAR(a.weights[i], b.weights[i], 1e-6) << "weight " << i;
  }

  std::unique_ptr<Communicator> communicator_ = create_communicator("auto");
};

TEST_F(Accumulate, TrainsLikeOneLargeBatch) {
  const Done one = trained({.batch = 21});
  EXPECT_EQ(one.t, 2 * one.per_epoch);
  expect_equal(trained({.accumulate = 3}), one);
  expect_equal(trained({.accumulate = 3, .knows_sizes = false}), one);
  expect_equal(trained({.accumulate = 3, .is_lazy = true}), one);
  // Not what single batches give.
  EXPECT_NE(trained({}).weights, one.weights);
}

// 97 examples are one iteration; on some ranks the last batches may be empty.
TEST_F(Accumulate, EndsTheIterationWithTheEpoch) {
  const Done all = trained({.batch = 97});
  EXPECT_EQ(all.per_epoch, 1);
  expect_equal(trained({.batch = 5, .accumulate = 1000}), all);
}

TEST_F(Accumulate, GivesShapesToLayersOfLaterBatches) {
  Linear first(3, 2), later(std::nullopt, 2);
  struct Both : Module {
    Both(Linear& a, Linear& b) {
      add("a", a);
      add("b", b);
      initialize(1);
    }
  } both(first, later);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
  optimizer->setup(both);
  const Tensor x = Tensor::full({2, 3}, 1), t = Tensor::zeros({2}, DType::int32);
  const Tensor before = first.parameters().at(0).parameter->value().clone();
  {
    StepScope step;
    for (Linear* layer : {&first, &later}) {
      const Variable loss =
          optimizer->forward([&] { return F::softmax_cross_entropy((*layer)(Variable(x)), t); }, 2);
      if (layer == &first)
        optimizer->backward(loss, 2);
      else
        optimizer->update(optimizer->backward_and_exchange(loss, 2));
    }
    step.succeeded();
  }
  const Tensor& after = first.parameters().at(0).parameter->value();
  EXPECT_NE(std::memcmp(before.raw(), after.raw(), before.bytes()), 0);
}

TEST_F(Accumulate, ResumesLikeAnUninterruptedRun) {
  const TemporaryFolder folder(communicator_.get());
  const SmallRun::Options options{.accumulate = 3};
  SmallRun whole(folder / "whole", communicator_.get(), options);
  whole.trainer->run();
  for (const std::int64_t cut : {std::int64_t{1}, whole.trainer->updater().steps_per_epoch()}) {
    SmallRun::Options until_cut = options;
    until_cut.iterations = cut;
    SmallRun first(folder / "first", communicator_.get(), until_cut);
    first.trainer->run();
    save_snapshot(folder / "state", *first.trainer);
    SmallRun resumed(folder / "second", communicator_.get(), options);
    resume(folder / "state", *resumed.trainer);
    resumed.trainer->run();
    testing::expect_same_run(whole, resumed);
  }
}

}  // namespace
}  // namespace tasuki
