// TASUKI_CHECK_LATE_VALUES finds functions of late values that do not keep their contract.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "nn/connection.hpp"
#include "tensor/late_values.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"
#include "training/recording/step_runner.hpp"

namespace tasuki {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

const bool is_asked_for = setenv("TASUKI_CHECK_LATE_VALUES", "1", 1) == 0;

const Device gpu = [] {
  testing::register_guarded_device();
  return Device::cuda(0);
}();

// What is said of an owner's function.
auto differs(const char* owner) {
  return Property(&Error::what, AllOf(HasSubstr("drawn twice"), HasSubstr(owner)));
}

// Keeps the contract.
struct Careful {
  double now = 1;
  LateValues<double> value{[this](std::span<double> out) { std::ranges::fill(out, now); }};
};

struct CountsDraws {
  double draws = 0;
  LateValues<double> value{[this](std::span<double> out) { std::ranges::fill(out, ++draws); }};
};

struct LeavesOneOut {
  LateValues<float> value{[](std::span<float> out) { out[0] = 1; }};
};

TEST(LateValuesCheck, AcceptsCorrectFunctions) {
  ASSERT_TRUE(is_asked_for);
  Careful careful;
  EXPECT_EQ(careful.value.on_host(1)[0], 1);
  const StepScope step;
  EXPECT_EQ(careful.value.on_host(2)[1], 1);
  EXPECT_EQ(careful.value.on_host(2)[1], 1);
}

TEST(LateValuesCheck, NamesFunctionsWithSideEffects) {
  const CountsDraws counting;
  EXPECT_THAT([&] { counting.value.on_host(1); }, Throws<Error>(differs("CountsDraws")));
  const StepScope step;
  EXPECT_THAT([&] { counting.value.on(Device::cpu(), 1); },
              Throws<Error>(differs("CountsDraws::value")));
}

TEST(LateValuesCheck, NamesFunctionsThatOmitAValue) {
  const LeavesOneOut leaving;
  EXPECT_EQ(leaving.value.on_host(1)[0], 1);
  EXPECT_THAT([&] { leaving.value.on_host(2); }, Throws<Error>(differs("LeavesOneOut")));
}

TEST(LateValuesCheck, NamesFunctionsThatReadChangingState) {
  Careful owner;
  const StepScope step;
  owner.value.on_host(1);
  owner.now = 2;
  EXPECT_THAT([&] { owner.value.on_host(1); }, Throws<Error>(differs("Careful")));
}

// --- on a GPU, where values are drawn at the beginning of steps ---

class LateValuesCheckOnGpu : public ::testing::Test {
 protected:
  LateValuesCheckOnGpu() { model.to(gpu); }

  void run(StepRunner& runner) {
    const Batch batch({{.name = "x", .values = Tensor::zeros({1, 2})}}, {1});
    Observation seen;
    runner.run(
        batch, seen,
        [this](const Batch&, Observation& found) {
          owner.now += change;
          found.add_sum("value", owner.value.on(gpu, 1).reshape({}), 1);
        },
        "");
  }

  Linear model{2, 2};
  Careful owner;
  double change = 0;
};

TEST_F(LateValuesCheckOnGpu, AcceptsCorrectFunctions) {
  for (const GraphMode mode : {GraphMode::off, GraphMode::on}) {
    StepRunner runner(model, {.graph = mode});
    for (int i = 0; i < 6; ++i) {
      ++owner.now;
      run(runner);
    }
    EXPECT_EQ(runner.recordings(), mode == GraphMode::on ? 1 : 0);
  }
}

TEST_F(LateValuesCheckOnGpu, NamesFunctionsThatReadChangingState) {
  StepRunner runner(model, {.graph = GraphMode::on});
  run(runner);  // finds which values are used
  change = 1;
  EXPECT_THAT([&] { run(runner); }, Throws<Error>(differs("Careful")));
}

}  // namespace
}  // namespace tasuki
