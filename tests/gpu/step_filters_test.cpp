// Filters of 16 bits that all convolutions of a step share one conversion of: as those that are
// converted one by one, also where weights change in the step.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "compare.hpp"
#include "device.hpp"
#include "side.hpp"
#include "tensor/backend.hpp"
#include "tensor/late_values.hpp"
#include "tensor/update_operations.hpp"

namespace tasuki::testing {
namespace {

class StepFilters : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_gpu()) GTEST_SKIP() << *reason;
    for (std::int64_t i = 0; i < values.count(); ++i)
      values.data<float>()[i] = static_cast<float>(i * 7 % 23 - 11) / 64;
    weights = values.to(gpu);
    rounded = weights.to(GetParam());
    const Tensor images = Tensor::empty({2, 5, 6, 6});
    for (std::int64_t i = 0; i < images.count(); ++i)
      images.data<float>()[i] = static_cast<float>(i % 13) / 8;
    x = images.to(GetParam()).to(gpu);
  }

  // Of two convolutions, the first of which has inputs that tensor cores need filled up.
  Tensor convolved() {
    const Tensor first = rounded.slice(0, split).reshape({16, 5, 3, 3}),
                 second = rounded.slice(split, rounded.count()).reshape({8, 16, 3, 3});
    Backend& device = backend(gpu);
    return device.conv2d(device.conv2d(x, first, {}, options, nullptr), second, {}, options,
                         &prepared);
  }
  Tensor result() { return convolved().to(Device::cpu()).plain(); }
  // Outside of a step each convolution converts its own filter.
  void expect_as_outside(const std::function<void()>& change = [] {}) {
    Tensor before, after;
    {
      StepScope step;
      before = result();
      const Tensor shared = prepared;
      result();
      is_shared = prepared.raw() == shared.raw();
      change();
      after = result();
      step.succeeded();
    }
    EXPECT_EQ(distance_of(before, last), 0);
    last = result();
    EXPECT_EQ(distance_of(after, last), 0);
  }
  static double distance_of(const Tensor& a, const Tensor& b) {
    const Tensor x = a.to(DType::float32), y = b.to(DType::float32);
    double most = 0;
    for (std::int64_t i = 0; i < x.count(); ++i)
      most = std::max(most, std::abs(static_cast<double>(x.data<float>()[i] - y.data<float>()[i])));
    return most;
  }

  const Device gpu = Device::cuda(0);
  const Conv2dOptions options{1, 1, 1, 1, 1, 1, 1};
  static constexpr std::int64_t split = 16 * 5 * 9;
  const Tensor values = Tensor::empty({split + 8 * 16 * 9});
  Tensor weights, rounded, x, prepared, last;
  bool is_shared = false;
};

TEST_P(StepFilters, FollowWeightsThatChange) {
  last = result();
  expect_as_outside();
  EXPECT_FALSE(is_shared) << "the step before has used no filters";
  expect_as_outside();
  EXPECT_TRUE(is_shared);
  const Tensor smaller = Tensor::full(values.shape(), 0.25f).to(gpu);
  expect_as_outside([&] { rounded.copy_from(smaller); });
  EXPECT_TRUE(is_shared);
  expect_as_outside([&] { rounded.slice(split, rounded.count()).fill(0.5); });
  const Tensor gradient = Tensor::full(values.shape(), 1).to(gpu);
  expect_as_outside([&] {
    UpdatePass pass;
    pass.device = gpu;
    pass.parameter = weights.data<float>();
    pass.gradient = gradient.data<float>();
    pass.count = weights.count();
    pass.factors.of_rule[0] = 0.5f;  // the rate
    pass.rounded = rounded.raw();
    pass.rounded_type = GetParam();
    backend(gpu).update(pass);
  });
  EXPECT_TRUE(is_shared);
  // Between steps, weights change without notice.
  const Tensor others = values.to(GetParam());
  rounded.copy_from(others);
  last = result();
  expect_as_outside();
  EXPECT_TRUE(is_shared);
  // Another array at the same place.
  rounded = {};
  rounded = smaller.to(GetParam());
  last = result();
  expect_as_outside();
  EXPECT_FALSE(is_shared);
}

TEST_P(StepFilters, AreConvertedInEachReplay) {
  last = result();
  expect_as_outside();
  Tensor y;
  std::unique_ptr<Recording> recording;
  {
    StepScope step;
    recording = backend(gpu).record(gpu, [&] { y = convolved(); });
    // What was recorded is not done yet.
    EXPECT_EQ(distance_of(result(), last), 0);
    step.succeeded();
  }
  for (const float value : {0.25f, -1.5f}) {
    rounded.copy_from(Tensor::full(values.shape(), value).to(gpu));
    recording->replay();
    EXPECT_EQ(distance_of(y.to(Device::cpu()).plain(), result()), 0);
  }
  // A recording writes its filters and reads them as long as it may run.
  const std::weak_ptr<Storage> filters = rounded.storage();
  rounded = prepared = {};
  EXPECT_FALSE(filters.expired());
  recording.reset();
  EXPECT_TRUE(filters.expired());
}

INSTANTIATE_TEST_SUITE_P(, StepFilters, ::testing::Values(DType::bfloat16, DType::float16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace tasuki::testing
