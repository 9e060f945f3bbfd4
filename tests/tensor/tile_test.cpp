// Products and convolutions by tiles against sums in double: with kernels in plain loops, which run
// everywhere, with the library's kernels on tiles in software, and with the processor's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rounded_convolution.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/tile_convolution.hpp"
#include "tensor/cpu/tile_product.hpp"
#include "tile_emulation.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::distance;
using testing::random_tensor;

enum class Kernels { emulated, software, own };

std::string name_of_kernels(const ::testing::TestParamInfo<Kernels>& info) {
  switch (info.param) {
    case Kernels::emulated:
      return "Emulated";
    case Kernels::software:
      return "InSoftware";
    case Kernels::own:
      return "OfTheProcessor";
  }
  return "";
}

class Tiles : public ::testing::TestWithParam<Kernels> {
 protected:
  void SetUp() override {
    if (GetParam() == Kernels::own && !has_tiles()) GTEST_SKIP() << "this processor has no AMX";
    if (GetParam() == Kernels::software &&
        (software_tile_kernels == nullptr || !has_instructions(dnnl::cpu_isa::avx512_core_bf16)))
      GTEST_SKIP() << "this processor has no AVX512_BF16";
    if (GetParam() == Kernels::software) emulation_.emplace(software_tile_kernels);
    if (GetParam() == Kernels::emulated) emulation_.emplace();
  }
  ~Tiles() override { set_cpu_threads(1); }

 private:
  std::optional<testing::EmulatedTiles> emulation_;
};

INSTANTIATE_TEST_SUITE_P(, Tiles,
                         ::testing::Values(Kernels::emulated, Kernels::software, Kernels::own),
                         name_of_kernels);

// Matrices of bfloat16, each stored with 3 columns more than it has.
struct Operands {
  std::int64_t m, n, k;
  bool transposed_a, transposed_b;
  std::int64_t a_step = (transposed_a ? m : k) + 3, b_step = (transposed_b ? k : n) + 3;
  Tensor a = random_tensor({transposed_a ? k : m, a_step}, 1).to(DType::bfloat16);
  Tensor b = random_tensor({transposed_b ? n : k, b_step}, 2).to(DType::bfloat16);
  Tensor a_values = a.to(DType::float32), b_values = b.to(DType::float32);

  TileProduct product(const Tensor& c) const {
    return {.m = m,
            .n = n,
            .k = k,
            .a = {static_cast<const std::uint16_t*>(a.raw()), a_step, transposed_a},
            .b = {static_cast<const std::uint16_t*>(b.raw()), b_step, transposed_b},
            .c = c.raw(),
            .c_step = c.shape()[1],
            .rounds = c.dtype() == DType::bfloat16};
  }
  double exact(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t l = 0; l < k; ++l)
      sum += static_cast<double>(
                 a_values.data<float>()[transposed_a ? l * a_step + i : i * a_step + l]) *
             static_cast<double>(
                 b_values.data<float>()[transposed_b ? j * b_step + l : l * b_step + j]);
    return sum;
  }
};

Tensor multiply_exactly(const Operands& of) {
  Tensor c = Tensor::empty({of.m, of.n});
  for (std::int64_t i = 0; i < of.m; ++i)
    for (std::int64_t j = 0; j < of.n; ++j)
      c.data<float>()[i * of.n + j] = static_cast<float>(of.exact(i, j));
  return c;
}

// The result is a part of a wider matrix, of which the rest stays.
void check_product(const Operands& operands, DType type, bool accumulate, bool with_bias,
                   bool relu) {
  const auto [m, n, k] = std::array{operands.m, operands.n, operands.k};
  SCOPED_TRACE(fmt::format("{}x{}x{}, transposed {} {}, {}, accumulate {}, bias {}, relu {}", m, n,
                           k, operands.transposed_a, operands.transposed_b, name_of(type),
                           accumulate, with_bias, relu));
  const Tensor c = Tensor::full({m, n + 5}, 2).to(type), bias = random_tensor({n}, 3);
  TileProduct product = operands.product(c);
  product.bias = with_bias ? bias.data<float>() : nullptr;
  product.relu = relu;
  product.accumulate = accumulate;
  product.scale = accumulate ? 1.0f : 0.5f;
  multiply_tiles(product);
  const Tensor found = c.to(DType::float32);
  const double size = std::sqrt(static_cast<double>(k)) + 2;
  const double tolerance = size * (type == DType::bfloat16 ? 0x1p-7 : 2e-6);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n + 5; ++j) {
      const auto value = static_cast<double>(found.data<float>()[i * (n + 5) + j]);
      if (j >= n) {
        ASSERT_EQ(value, 2) << "beyond the result";
        continue;
      }
      double expected = operands.exact(i, j) * static_cast<double>(product.scale);
      if (with_bias) expected += static_cast<double>(bias.data<float>()[j]);
      if (accumulate) expected += 2;
      if (relu) expected = std::max(expected, 0.0);
      ASSERT_NEAR(value, expected, tolerance) << i << ", " << j;
    }
}

TEST_P(Tiles, MultiplyMatricesOfAllShapesAndOrders) {
  const std::array<std::int64_t, 3> sizes[] = {{1, 1, 1},    {3, 33, 5},    {16, 16, 32},
                                               {17, 15, 31}, {33, 100, 64}, {100, 33, 70},
                                               {64, 48, 257}};
  int index = 0;
  for (const auto& [m, n, k] : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const DType type : {DType::float32, DType::bfloat16}) {
          ++index;
          const Operands operands{m, n, k, ta, tb};
          check_product(operands, type, index % 2 != 0, index % 3 == 0, index % 5 == 0);
          check_product(operands, type, false, false, false);
          if (HasFailure()) return;
        }
}

// Sums that are cut, and panels that are packed in parts or kept.
TEST_P(Tiles, MultiplyLongSumsAndManyColumns) {
  for (const bool transposed : {false, true}) {
    check_product({5, 40, 1500, transposed, false}, DType::float32, false, true, true);
    check_product({40, 5, 2500, transposed, true}, DType::bfloat16, true, true, true);
    check_product({40, 700, 600, transposed, false}, DType::bfloat16, false, true, false);
    check_product({300, 700, 400, transposed, true}, DType::float32, true, false, false);
  }
}

// (a b)^T = b^T a^T: which operand is the left one is decided by their orders.
TEST_P(Tiles, HaveTheSameBitsInBothRolesAndOnAnyNumberOfThreads) {
  const Operands operands{200, 130, 300, true, true};
  const Tensor c = Tensor::empty({200, 130}), turned = Tensor::empty({130, 200});
  set_cpu_threads(1);
  multiply_tiles(operands.product(c));
  TileProduct other = operands.product(turned);
  std::swap(other.m, other.n);
  std::swap(other.a, other.b);
  other.a.transposed = !other.a.transposed;
  other.b.transposed = !other.b.transposed;
  for (const int threads : {1, 2, 3, 4}) {
    set_cpu_threads(threads);
    multiply_tiles(other);
    for (std::int64_t i = 0; i < 200; ++i)
      for (std::int64_t j = 0; j < 130; ++j)
        ASSERT_EQ(turned.data<float>()[j * 200 + i], c.data<float>()[i * 130 + j])
            << i << ", " << j << ", " << threads << " threads";
  }
}

TEST_P(Tiles, KeepNaNThroughReluAndInItsRow) {
  const Operands operands{20, 40, 50, false, false};
  static_cast<std::uint16_t*>(operands.a.raw())[3 * operands.a_step + 7] = 0x7fc0;
  for (const DType type : {DType::float32, DType::bfloat16}) {
    const Tensor c = Tensor::empty({20, 40}, type);
    TileProduct product = operands.product(c);
    product.relu = true;
    multiply_tiles(product);
    const Tensor found = c.to(DType::float32);
    for (std::int64_t i = 0; i < found.count(); ++i)
      ASSERT_EQ(std::isnan(found.data<float>()[i]), i / 40 == 3) << i;
  }
}

// oneDNN configures tiles for each of its primitives, as we do for each product.
TEST_P(Tiles, AlternateWithPrimitivesOfOneDnnInOneThread) {
  if (!has_instructions(dnnl::cpu_isa::avx512_core))
    GTEST_SKIP() << "oneDNN computes in bfloat16 with AVX-512 only";
  const TileKernels* const own = tile_kernels();
  const Operands small{5, 20, 40, true, false}, large{70, 90, 300, false, true};
  const auto multiply = [](const Operands& of) {
    Tensor c = Tensor::empty({of.m, of.n});
    multiply_tiles(of.product(c));
    return c;
  };
  const auto multiply_by_dnnl = [&](const Operands& of) {
    Tensor c = Tensor::empty({of.m, of.n});
    const TileProduct product = of.product(c);
    set_tile_kernels(nullptr);
    multiply_rounded_block(of.m, of.n, of.k, product.a, product.b, c.data<float>(), of.n, 1, false);
    set_tile_kernels(own);
    return c;
  };
  // Too few channels for tiles of our own.
  const Tensor x = random_tensor({3, 16, 9, 9}, 1).to(DType::bfloat16),
               w = random_tensor({16, 16, 3, 3}, 2).to(DType::bfloat16);
  const auto convolve = [&](DType type) {
    return testing::cpu().conv2d(x.to(type), w.to(type), {}, {}).plain();
  };
  set_conv_algorithm(ConvAlgorithm::direct);
  const std::function<Tensor()> steps[] = {
      [&] { return multiply(small); },         [&] { return multiply_by_dnnl(large); },
      [&] { return multiply(large); },         [&] { return convolve(DType::bfloat16); },
      [&] { return multiply_by_dnnl(small); },
  };
  const Tensor exact_small = multiply_exactly(small), exact_large = multiply_exactly(large);
  const Tensor expected[] = {exact_small, exact_large, exact_large, convolve(DType::float32),
                             exact_small};
  for (const std::size_t stride : {1, 2, 3, 4})  // each after each other one
    for (std::size_t i = 0; i < 10; ++i) {
      const std::size_t step = i * stride % std::size(steps);
      EXPECT_LT(distance(steps[step](), expected[step]), step == 3 ? 0x1p-8f : 1e-5f)
          << "step " << step << " after " << (step + std::size(steps) - stride) % std::size(steps);
    }
  set_conv_algorithm(ConvAlgorithm::fastest);
}

// A process gets the permission to use AMX once, so this runs in a new one. The kernel refuses it
// where a thread's alternate stack could not hold the registers.
[[noreturn]] void multiply_with_a_small_alternate_stack() {
  static char small[4096];
  stack_t stack{};
  stack.ss_sp = small;
  stack.ss_size = sizeof small;
  if (sigaltstack(&stack, nullptr) != 0) std::_Exit(2);
  const Tensor a = Tensor::full({32, 32}, 0.5).to(DType::bfloat16), c = Tensor::empty({32, 32});
  multiply_rounded({a}, {a}, c);
  multiply_rounded({a}, {a}, c);
  std::_Exit(c.data<float>()[5] == 8 && !has_tiles() ? 0 : 1);
}

TEST(AlternateStackForTiles, LeavesAMXUnusedWithOneLineIfItIsTooSmall) {
  std::ifstream file("/proc/cpuinfo");
  const std::string processor(std::istreambuf_iterator<char>(file), {});
  if (processor.find(" amx_tile") == std::string::npos) GTEST_SKIP() << "this processor has no AMX";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply_with_a_small_alternate_stack(), ::testing::ExitedWithCode(0),
              "^[^\n]*an alternate signal stack of a thread is too small[^\n]*\n$");
}

// --- convolutions ---

class TileConvolutions : public Tiles {
 protected:
  void SetUp() override {
    Tiles::SetUp();
    if (!IsSkipped() && !has_instructions(dnnl::cpu_isa::avx512_core))
      GTEST_SKIP() << "oneDNN reorders images of bfloat16 with AVX-512 only";
  }
};

INSTANTIATE_TEST_SUITE_P(, TileConvolutions,
                         ::testing::Values(Kernels::emulated, Kernels::software, Kernels::own),
                         name_of_kernels);

TEST_P(TileConvolutions, MatchTheirDefinition) {
  const auto same = [](std::int64_t pad_h, std::int64_t pad_w) {
    return Conv2dOptions{1, 1, pad_h, pad_w, 1, 1, 1};
  };
  const testing::ConvolutionProblem problems[] = {
      {{2, 32, 8, 8}, {64, 32, 3, 3}, same(1, 1)},
      {{1, 64, 5, 7}, {32, 64, 3, 3}, same(0, 0)},
      {{3, 32, 16, 16}, {32, 32, 3, 3}, same(1, 1)},
      {{2, 32, 4, 33}, {32, 32, 1, 1}, same(0, 0)},
      {{1, 32, 1, 1}, {32, 32, 1, 1}, same(0, 0)},
      {{2, 32, 6, 5}, {32, 32, 2, 4}, same(1, 2)},
      {{2, 32, 7, 6}, {32, 32, 3, 3}, same(2, 2)},
      {{1, 32, 9, 17}, {32, 32, 5, 1}, same(2, 0)},
      {{37, 32, 3, 3}, {32, 32, 3, 3}, same(1, 1)},
      {{2, 32, 2, 2}, {32, 32, 2, 2}, same(0, 0)},
      // More images than one group has, and a last group that is not full.
      {{40, 32, 15, 14}, {32, 32, 3, 2}, same(1, 1)},
  };
  for (const testing::ConvolutionProblem& p : problems) {
    ASSERT_TRUE(can_use_tile_convolution(ConvolutionGeometry(p.x, p.w, p.o))) << p.text();
    check_definition({tile_conv2d, tile_conv2d_backward_data, tile_conv2d_backward_weights}, p);
  }
}

TEST_P(TileConvolutions, AreForStrideOneAndPairsOfBlocks) {
  const auto can = [](const Shape& x, const Shape& w, const Conv2dOptions& options) {
    return can_use_tile_convolution(ConvolutionGeometry(x, w, options));
  };
  EXPECT_TRUE(can({1, 32, 8, 8}, {64, 32, 3, 3}, {1, 1, 2, 2, 1, 1, 1}));
  EXPECT_FALSE(can({1, 32, 8, 8}, {64, 32, 3, 3}, {1, 1, 3, 3, 1, 1, 1})) << "wide padding";
  EXPECT_FALSE(can({1, 32, 8, 8}, {64, 32, 3, 3}, {2, 1, 1, 1, 1, 1, 1})) << "stride";
  EXPECT_FALSE(can({1, 32, 8, 8}, {64, 32, 3, 3}, {1, 1, 1, 1, 2, 2, 1})) << "dilation";
  EXPECT_FALSE(can({1, 64, 8, 8}, {64, 32, 3, 3}, {1, 1, 1, 1, 1, 1, 2})) << "groups";
  EXPECT_FALSE(can({1, 16, 8, 8}, {64, 16, 3, 3}, {1, 1, 1, 1, 1, 1, 1})) << "inputs";
  EXPECT_FALSE(can({1, 32, 8, 8}, {48, 32, 3, 3}, {1, 1, 1, 1, 1, 1, 1})) << "results";
}

}  // namespace
}  // namespace tasuki
