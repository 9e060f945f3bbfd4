// Attention, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "nn/functions/sequences.hpp"
#include "reference_check.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/instruction_set.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

F::AttentionSettings settings_of(const ReferenceCase& test) {
  const auto& o = test.options;
  F::AttentionSettings settings{.heads = o["heads"], .causal = o["causal"]};
  const std::vector<std::int64_t> lengths = o["lengths"];
  if (!lengths.empty())
    settings.lengths = Tensor::from(std::span<const std::int64_t>(lengths), {std::ssize(lengths)});
  return settings;
}

TEST(AttentionReference, SeparateArrays) {
  check_file("attention", [](const Inputs& in, const ReferenceCase& test) {
    return F::attention(in.at("q"), in.at("k"), in.at("v"), settings_of(test));
  });
}

TEST(AttentionReference, PackedArray) {
  check_file("self_attention", [](const Inputs& in, const ReferenceCase& test) {
    return F::self_attention(in.at("qkv"), settings_of(test));
  });
}

// More keys than a block has: the softmax is put together from several.
TEST(Attention, GivesTheSameResultInBlocks) {
  const std::int64_t n = 700;
  const Tensor qkv = testing::random_tensor({1, n, 12}, 9);
  const Tensor y = F::self_attention(Variable(qkv), {.heads = 1}).value();
  // Row 650, plainly.
  const std::span<const float> x = qkv.span<float>();
  std::vector<double> weights(static_cast<std::size_t>(n));
  double sum = 0, result = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    double score = 0;
    for (int c = 0; c < 4; ++c)
      score += static_cast<double>(x[650 * 12 + c]) * static_cast<double>(x[j * 12 + 4 + c]);
    const double weight = std::exp(score / 2);
    sum += weight;
    result += weight * static_cast<double>(x[j * 12 + 8]);
  }
  EXPECT_NEAR(static_cast<double>(y.span<float>()[650 * 4]), result / sum, 1e-6);
}

// Scores are exact, so weights are as accurate as those of scores near 0.
TEST(Attention, StaysAccurateForLargeScores) {
  const std::int64_t n = 64;
  const Tensor q = Tensor::full({1, 1, 1}, 32), k = Tensor::empty({1, n, 1});
  for (std::int64_t j = 0; j < n; ++j) k.data<float>()[j] = 31 + static_cast<float>(j % 8) / 64;
  const Variable v(testing::random_tensor({1, n, 1}, 4), true);
  const Variable y = F::attention(Variable(q), Variable(k), v, {.heads = 1});
  testing::weighted_sum(y, Tensor::full({1, 1, 1}, 1)).backward();
  double sum = 0;
  for (std::int64_t j = 0; j < n; ++j) sum += std::exp(static_cast<double>(j % 8) / 2);
  for (std::int64_t j = 0; j < n; ++j) {
    const double weight = std::exp(static_cast<double>(j % 8) / 2) / sum;
    EXPECT_NEAR(static_cast<double>(v.grad().data<float>()[j]), weight, 1e-6 * weight) << j;
  }
}

TEST(Attention, RejectsMismatchedShapes) {
  const Variable x(testing::random_tensor({2, 3, 12}, 1)), y(testing::random_tensor({2, 4, 12}, 1));
  EXPECT_THROW(F::self_attention(x, {.heads = 3}), Error);
  EXPECT_THROW(F::attention(x, y, x, {.heads = 2}), Error);
  EXPECT_THROW(F::attention(x, y, y, {.heads = 2, .causal = true}), Error);
  EXPECT_THROW(F::attention(x, y, y, {.heads = 2, .lengths = Tensor::full({2}, 5, DType::int64)}),
               Error);
}

// In products without AVX-512, oneDNN adds in an order that depends on the rows that a thread has.
TEST(Attention, GivesTheSameResultForAnyNumberOfThreads) {
  const double most = instruction_set().starts_with("avx512") ? 0 : 1e-7;
  for (const DType type : {DType::float32, DType::bfloat16})
    for (const Shape& shape : {Shape{3, 208, 48}, Shape{1, 208, 24}}) {
      const Tensor x = testing::random_tensor(shape, 2).to(type);
      const auto run = [&](int threads) {
        set_cpu_threads(threads);
        const Variable qkv(x, true);
        const Variable y = F::self_attention(qkv, {.heads = shape[2] / 24, .causal = true});
        testing::weighted_sum(y, testing::random_tensor(y.shape(), 3).to(type)).backward();
        set_cpu_threads(1);
        return qkv.grad().to(DType::float32);
      };
      EXPECT_LE(testing::relative_error(run(3), run(1)), most) << name_of(type) << shape.text();
    }
}

}  // namespace
}  // namespace tasuki
