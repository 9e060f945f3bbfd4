// That comparisons of a GPU with the CPU pass and fail when they should: on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "compare.hpp"
#include "problems.hpp"
#include "tensor/cuda/convolution_choice.hpp"

namespace tasuki::testing {
namespace {

Side cpu_side(std::uint64_t seed, DType rounding = DType::float32) {
  return {Device::cpu(), DType::float32, rounding, seed};
}

Tensor clone_with(const Tensor& x, std::int64_t i, double factor) {
  const Tensor copy = x.plain().to(DType::float64).clone();
  copy.data<double>()[i] *= factor;
  return copy;
}

TEST(GpuHarness, AcceptsEqualSidesInEveryProblem) {
  for (const Problem& problem : all_problems()) {
    SCOPED_TRACE(problem.name);
    Side tested = cpu_side(5), reference = cpu_side(5);
    poison_pool(Device::cpu());
    EXPECT_TRUE(agree(problem.compute(tested), problem.compute(reference), 1e-6));
  }
}

// In one problem of each subject.
TEST(GpuHarness, DetectsPerturbedResults) {
  std::set<std::string> subjects;
  for (const Problem& problem : all_problems()) {
    if (!subjects.insert(problem.name.substr(0, problem.name.find('/'))).second) continue;
    SCOPED_TRACE(problem.name);
    Side tested = cpu_side(5), reference = cpu_side(5);
    const Results expected = problem.compute(reference);
    Results found = problem.compute(tested);
    for (Result& result : found) {
      const Tensor value = result.value;
      if (value.count() == 0 || relative_distance(value, Tensor::zeros(value.shape())) == 0)
        continue;
      result.value = clone_with(value, value.count() / 2, std::nan(""));
      EXPECT_FALSE(agree(found, expected, 1e-2)) << result.name << " with a NaN";
      Tensor scaled = value.plain().to(DType::float64).clone();
      for (double& element : scaled.span<double>()) element *= 1.001;
      result.value = scaled;
      EXPECT_FALSE(agree(found, expected, 0x1p-10)) << result.name << " scaled";
      result.value = value;
    }
    if (!found.empty()) {
      found.pop_back();
      EXPECT_FALSE(agree(found, expected, 1)) << "a result less";
    }
  }
}

TEST(GpuHarness, DetectsDifferentInputs) {
  const Problem problem = all_problems().front();
  Side tested = cpu_side(5), reference = cpu_side(6);
  EXPECT_FALSE(agree(problem.compute(tested), problem.compute(reference), 1e-2));
}

TEST(GpuHarness, RoundsTheReferencesInputs) {
  Side side = cpu_side(5, DType::bfloat16), exact = cpu_side(5);
  const Tensor rounded = side.activations({100}), full = exact.activations({100});
  EXPECT_EQ(relative_distance(rounded, full.to(DType::bfloat16)), 0);
  EXPECT_GT(relative_distance(rounded, full), 1e-4);
}

TEST(GpuHarness, MeasuresDistanceByNorms) {
  const Tensor zero = Tensor::zeros({4}), two = Tensor::full({4}, 2);
  EXPECT_EQ(relative_distance(two, two), 0);
  EXPECT_DOUBLE_EQ(relative_distance(Tensor::full({4}, 2.5), two), 0.25);
  EXPECT_DOUBLE_EQ(relative_distance(two, zero), 4);
  EXPECT_EQ(relative_distance(zero, zero), 0);
  const Tensor nan = Tensor::full({4}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isinf(relative_distance(nan, two)));
}

std::vector<int> algorithms(const ConvolutionRules& rules) {
  const std::vector<ConvolutionOffer> offers = {
      {.algorithm = 1, .works = false},
      {.algorithm = 6, .works = true, .is_deterministic = true, .workspace = 5000},
      {.algorithm = 4, .works = true, .is_reduced = true},
      {.algorithm = 3, .works = true, .workspace = 100},
      {.algorithm = 0, .works = true, .is_deterministic = true}};
  std::vector<int> allowed;
  for (const ConvolutionOffer& offer : allowed_offers(offers, rules))
    allowed.push_back(offer.algorithm);
  return allowed;
}

TEST(ConvolutionChoice, TakesTheFastestAllowedAlgorithm) {
  EXPECT_EQ(algorithms({false, true, 10000}), (std::vector<int>{6, 4, 3, 0}));
  EXPECT_EQ(algorithms({false, false, 10000}), (std::vector<int>{6, 3, 0}));
  EXPECT_EQ(algorithms({true, false, 10000}), (std::vector<int>{6, 0}));
  EXPECT_EQ(algorithms({false, false, 100}), (std::vector<int>{3, 0}));
  EXPECT_EQ(algorithms({true, false, 0}), (std::vector<int>{0}));
}

TEST(ConvolutionChoice, IgnoresTimingsThatLoadCode) {
  const std::vector<ConvolutionOffer> first = {
      {.algorithm = 0, .works = true, .milliseconds = 0.5f},
      {.algorithm = 1, .works = true, .math = 1, .milliseconds = 3.0f},  // its code was loaded
      {.algorithm = 7, .works = false, .milliseconds = -1}};
  const std::vector<ConvolutionOffer> again = {
      {.algorithm = 1, .works = true, .math = 1, .milliseconds = 0.02f},
      {.algorithm = 1, .works = true, .math = 2, .milliseconds = 0.01f},
      {.algorithm = 0, .works = true, .milliseconds = 0.6f},
      {.algorithm = 7, .works = false, .milliseconds = -1}};
  const std::vector<ConvolutionOffer> offers = fastest_times(first, again);
  ASSERT_EQ(offers.size(), 3u);
  EXPECT_EQ(offers[0].algorithm, 1);
  EXPECT_EQ(offers[0].milliseconds, 0.02f);
  EXPECT_EQ(offers[1].algorithm, 0);
  EXPECT_EQ(offers[1].milliseconds, 0.5f);
  EXPECT_FALSE(offers[2].works);
}

}  // namespace
}  // namespace tasuki::testing
