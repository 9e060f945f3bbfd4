// The loops behind the update rules: whatever the length, the vector width and the threads, every
// element gets the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "core/philox.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

constexpr std::array all_kernels = {UpdateKernel::sgd,      UpdateKernel::momentum_sgd,
                                    UpdateKernel::nesterov, UpdateKernel::adam,
                                    UpdateKernel::rmsprop,  UpdateKernel::adagrad,
                                    UpdateKernel::adadelta, UpdateKernel::combine};
constexpr std::size_t guard = 32;  // elements behind the end that must not change

struct Arrays {
  std::vector<float> parameter, gradient, first, second;

  explicit Arrays(std::size_t count) {
    RandomStream random(1);
    for (auto* values : {&parameter, &gradient, &first, &second})
      for (std::size_t i = 0; i < count + guard; ++i) values->push_back(random.uniform() + 0.01f);
  }
  // Elements [begin, begin + count).
  UpdatePass pass(UpdateKernel rule, std::size_t begin, std::size_t count) {
    UpdatePass pass;
    pass.kernel = rule;
    pass.parameter = parameter.data() + begin;
    pass.gradient = gradient.data() + begin;
    pass.state[0] = first.data() + begin;
    pass.state[1] = second.data() + begin;
    pass.count = static_cast<std::int64_t>(count);
    pass.factors = {0.37f, 0.013f, {0.021f, 0.11f, 0.07f, 1e-3f, 0.003f}};
    return pass;
  }
  friend bool operator==(const Arrays&, const Arrays&) = default;
};

class WithThreads {
 public:
  explicit WithThreads(int threads) : before_(cpu_threads()) { set_cpu_threads(threads); }
  ~WithThreads() { set_cpu_threads(before_); }

 private:
  int before_;
};

class UpdateKernels : public testing::TestWithParam<std::size_t> {};

TEST_P(UpdateKernels, MatchElementwiseUpdatesForAnyLength) {
  const std::size_t count = GetParam();
  Backend& cpu = backend(Device::cpu());
  for (const UpdateKernel rule : all_kernels) {
    Arrays whole(count), single(count);
    const Arrays before = whole;
    cpu.update(whole.pass(rule, 0, count));
    for (std::size_t i = 0; i < count; ++i) cpu.update(single.pass(rule, i, 1));
    EXPECT_TRUE(whole == single) << "rule " << static_cast<int>(rule);
    EXPECT_EQ(whole.parameter == before.parameter, count == 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, UpdateKernels,
                         testing::Values(0, 1, 15, 16, 17, 4095, 4097, 1000003),
                         testing::PrintToStringParamName());

TEST(UpdateKernels, AreBitIdenticalForAnyNumberOfThreads) {
  constexpr std::size_t count = 1000003;
  Backend& cpu = backend(Device::cpu());
  for (const UpdateKernel rule : all_kernels) {
    Arrays one(count), three(count);
    {
      const WithThreads threads(1);
      cpu.update(one.pass(rule, 0, count));
    }
    const WithThreads threads(3);
    cpu.update(three.pass(rule, 0, count));
    EXPECT_TRUE(one == three) << "rule " << static_cast<int>(rule);
  }
}

// Both passes of LAMB, the second one in parts.
TEST(Lamb, IsBitIdenticalForAnyThreadsAndParts) {
  const std::vector<std::int64_t> segments = {0, 1, 16, 70001, 70032, 4096, 74128, 20};
  constexpr std::int64_t end = 74160;
  std::vector<std::int32_t> parameter_of;
  for (std::int64_t line = 0; line < end / 16; ++line)
    parameter_of.push_back(line < 1 ? 0 : line < 70032 / 16 ? 1 : line < 74128 / 16 ? 2 : 3);
  const auto run = [&](int threads, std::int64_t part) {
    const WithThreads with(threads);
    Arrays arrays(static_cast<std::size_t>(end));
    std::vector<float> ratios(4);
    const UpdateFactors factors{0.37f, 0.013f, {0.021f, 0.11f, 0.07f, 1e-3f, 0.003f, 9, 14, 1}};
    LambPass first;
    first.parameter = arrays.parameter.data();
    first.gradient = arrays.gradient.data();
    first.state[0] = arrays.first.data();
    first.state[1] = arrays.second.data();
    first.segments = segments.data();
    first.parameters = 4;
    first.factors = factors;
    first.ratios = ratios.data();
    backend(Device::cpu()).lamb(first);
    for (std::int64_t begin = 0; begin < end; begin += part) {
      const std::int64_t count = std::min(part, end - begin);
      UpdatePass second = arrays.pass(UpdateKernel::lamb, static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(count));
      second.factors = factors;
      second.ratios = ratios.data();
      second.parameter_of = parameter_of.data() + begin / 16;
      backend(Device::cpu()).update(second);
    }
    return std::pair(arrays, ratios);
  };
  const auto expected = run(1, end);
  for (const float ratio : expected.second) EXPECT_NE(ratio, 1);
  EXPECT_TRUE(run(3, end) == expected);
  EXPECT_TRUE(run(2, 16 * 301) == expected);
}

TEST(SquaredNorm, IsExactForAnyLengthAndNumberOfThreads) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 4095, 4097, 1000003}) {
    const Tensor x = Tensor::empty({count});
    RandomStream random(2);
    double expected = 0;
    for (float& value : x.span<float>()) {
      value = random.normal();
      expected += double{value} * double{value};
    }
    std::vector<double> found;
    for (const int count_of_threads : {1, 2, 3}) {
      const WithThreads threads(count_of_threads);
      found.push_back(backend(Device::cpu()).squared_norm(x));
    }
    EXPECT_NEAR(found[0], expected, 1e-12 * expected);
    EXPECT_EQ(found[0], found[1]);
    EXPECT_EQ(found[0], found[2]);
  }
}

TEST(SquaredNorm, DoesNotOverflowFloat) {
  const Tensor x = Tensor::full({100}, 1e30);
  const double value = 1e30f;
  EXPECT_DOUBLE_EQ(backend(Device::cpu()).squared_norm(x), 100 * value * value);
}

}  // namespace
}  // namespace tasuki
