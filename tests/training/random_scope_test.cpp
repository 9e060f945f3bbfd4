// Updates leave nothing behind of what their random functions were keyed by, which lies in a batch
// that is gone.
#include <gtest/gtest.h>

#include <thread>

#include "dataset/iterators/share_iterator.hpp"
#include "nn/functions/normalization.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "training/batch_memory.hpp"
#include "training/workers/parallel_updater.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

// What a dropout outside of updates makes of more rows than the batches have, in a thread that has
// done `work` before.
std::vector<float> dropped_after(const std::function<void()>& work) {
  std::vector<float> found;
  std::thread([&] {
    work();
    const Tensor y = F::dropout(Variable(Tensor::full({30, 20}, 1))).value();
    found.assign(y.span<float>().begin(), y.span<float>().end());
  }).join();
  return found;
}

// A classifier whose loss can be told to fail.
class RandomScopes : public ::testing::Test {
 protected:
  void SetUp() override { optimizer->setup(*model); }

  LossFunction loss() {
    return [this, loss = classification_loss(*model)](const Batch& batch, Observation& seen) {
      Variable result = loss(batch, seen);
      if (fails) fail(ErrorKind::data, "out of luck");
      return result;
    };
  }
  static std::unique_ptr<Iterator> batches() {
    return create_shuffled_iterator(share_of(synthetic(97), nullptr), 24, 3);
  }
  static void update(Updater& updater) {
    Observation seen;
    for (int step = 0; step < 3; ++step) updater.update(seen);
  }
  // After `work`, and after it has failed.
  void expect_nothing_left(const std::function<void()>& work) {
    const std::vector<float> fresh = dropped_after([] {});
    EXPECT_EQ(dropped_after(work), fresh);
    fails = true;
    EXPECT_EQ(dropped_after([&] { EXPECT_NE(error_of(work), "(nothing thrown)"); }), fresh);
  }

  bool fails = false;
  std::unique_ptr<Classifier> model = small_model();
  std::unique_ptr<Optimizer> optimizer = create_optimizer("sgd");
};

TEST_F(RandomScopes, EndWithAnUpdate) {
  StandardUpdater updater(batches(), *optimizer, loss(), {.seed = 3});
  expect_nothing_left([&] { update(updater); });
}

TEST_F(RandomScopes, EndWithAWorkersUpdate) {
  ParallelUpdater updater(batches(), *optimizer, {{*model, loss()}}, {.seed = 3});
  expect_nothing_left([&] { update(updater); });
}

TEST_F(RandomScopes, EndWithAMeasuredStep) {
  const DatasetHeader header = synthetic(1)->header();
  expect_nothing_left([&] { measure_step(5, header, Device::cpu(), DType::float32, loss()); });
}

}  // namespace
}  // namespace tasuki::testing
