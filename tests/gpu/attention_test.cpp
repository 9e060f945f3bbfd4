// Attention on a GPU against its definition in float64: for each number of rows and width of heads,
// with and without masks.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "compare.hpp"
#include "device.hpp"
#include "side.hpp"
#include "tensor/attention_operations.hpp"

namespace tasuki::testing {
namespace {

struct AttentionProblem {
  std::int64_t items, queries, keys, heads, width;
  bool causal;
  std::vector<std::int64_t> lengths = {};
  bool has_low_scores = false;  // about -120, as far below 0 as e^-x overflows

  std::string text() const {
    return fmt::format("{} of {} x {}, {} heads of {}{}{}", items, queries, keys, heads, width,
                       causal ? ", causal" : "", lengths.empty() ? "" : ", lengths") +
           (has_low_scores ? ", low scores" : "");
  }
};

// Values of N x T x (heads d) on the host.
struct Heads {
  const AttentionProblem& test;
  std::int64_t rows;
  std::vector<double> values;

  Heads(const AttentionProblem& test, std::int64_t rows)
      : test(test),
        rows(rows),
        values(static_cast<std::size_t>(test.items * rows * test.heads * test.width)) {}
  Heads(const AttentionProblem& test, std::int64_t rows, const Tensor& x) : Heads(test, rows) {
    const Tensor wide = x.to(Device::cpu()).plain().to(DType::float64);
    std::copy_n(wide.data<double>(), values.size(), values.begin());
  }
  double* row(std::int64_t item, std::int64_t head, std::int64_t i) {
    return &values[static_cast<std::size_t>(((item * rows + i) * test.heads + head) * test.width)];
  }
  Tensor tensor() const {
    return Tensor::from(std::span<const double>(values),
                        {test.items, rows, test.heads * test.width});
  }
};

double product(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

void add(double* to, double factor, const double* from, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) to[c] += factor * from[c];
}

Results by_definition(const AttentionProblem& test, Heads q, Heads k, Heads v, Heads dy) {
  const double scale = 1 / std::sqrt(static_cast<double>(test.width));
  Heads y(test, test.queries), dq(test, test.queries), dk(test, test.keys), dv(test, test.keys);
  for (std::int64_t item = 0; item < test.items; ++item) {
    const std::int64_t keys =
        test.lengths.empty() ? test.keys : test.lengths[static_cast<std::size_t>(item)];
    const std::int64_t queries = test.causal || keys == 0 ? keys : test.queries;
    for (std::int64_t head = 0; head < test.heads; ++head)
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t seen = test.causal ? i + 1 : keys;
        std::vector<double> weights, slopes;
        double largest = -INFINITY, sum = 0, mean = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          weights.push_back(scale *
                            product(q.row(item, head, i), k.row(item, head, j), test.width));
          largest = std::max(largest, weights.back());
        }
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (std::int64_t j = 0; j < seen; ++j) {
          double& weight = weights[static_cast<std::size_t>(j)];
          weight /= sum;
          add(y.row(item, head, i), weight, v.row(item, head, j), test.width);
          add(dv.row(item, head, j), weight, dy.row(item, head, i), test.width);
          slopes.push_back(product(dy.row(item, head, i), v.row(item, head, j), test.width));
          mean += weight * slopes.back();
        }
        for (std::int64_t j = 0; j < seen; ++j) {
          const auto at = static_cast<std::size_t>(j);
          const double slope = scale * weights[at] * (slopes[at] - mean);
          add(dq.row(item, head, i), slope, k.row(item, head, j), test.width);
          add(dk.row(item, head, j), slope, q.row(item, head, i), test.width);
        }
      }
  }
  return {{"y", y.tensor()}, {"dq", dq.tensor()}, {"dk", dk.tensor()}, {"dv", dv.tensor()}};
}

class GpuAttention : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_gpu()) GTEST_SKIP() << *reason;
  }

  static void check(const AttentionProblem& test) {
    SCOPED_TRACE(test.text());
    Side side(Device::cuda(0), GetParam(), GetParam(), 7);
    const std::int64_t width = test.heads * test.width;
    const auto with_first = [&](const Tensor& x, double value) {
      if (!test.has_low_scores) return x;
      const Tensor host = x.to(Device::cpu()).to(DType::float32);
      for (std::int64_t i = 0; i < host.count(); i += test.width)
        host.data<float>()[i] = static_cast<float>(value);
      return host.to(x.dtype()).to(x.device());
    };
    const double low = -120 * std::sqrt(static_cast<double>(test.width));
    const Tensor q = with_first(side.activations({test.items, test.queries, width}), 1),
                 k = with_first(side.activations({test.items, test.keys, width}), low),
                 v = side.activations({test.items, test.keys, width}),
                 dy = side.activations({test.items, test.queries, width});
    AttentionOptions options{test.heads, test.width, 1 / std::sqrt(static_cast<float>(test.width)),
                             test.causal};
    if (!test.lengths.empty())
      options.lengths =
          Tensor::from(std::span<const std::int64_t>(test.lengths), {test.items}).to(side.device());
    AttentionOperations& operations = side.backend().attention();
    const AttentionResult forward = operations.attention({q}, {k}, {v}, options);
    const Tensor dq = Tensor::empty(q.shape(), q.dtype(), q.device()),
                 dk = Tensor::empty(k.shape(), k.dtype(), k.device()),
                 dv = Tensor::empty(v.shape(), v.dtype(), v.device());
    operations.attention_gradient({q}, {k}, {v}, forward, dy, options, {dq}, {dk}, {dv});
    Results found = {{"y", forward.y}, {"dq", dq}, {"dk", dk}, {"dv", dv}};
    Results expected = by_definition(test, Heads(test, test.queries, q), Heads(test, test.keys, k),
                                     Heads(test, test.keys, v), Heads(test, test.queries, dy));
    double tolerance = GetParam() == DType::float32 ? 1e-5 : 1e-2;
    if (test.has_low_scores) {
      tolerance = std::max(tolerance, 1e-4);  // float32 has scores of 120 within 1e-5
      for (const Result& each : found) EXPECT_LT(relative_distance(each.value, each.value), 1);
      expected = {expected[0], expected[3]};
      found = {found[0], found[3]};
    }
    EXPECT_TRUE(agree(found, expected, tolerance));
  }
};

TEST_P(GpuAttention, AgreesWithItsDefinitionForEachNumberOfRows) {
  for (const std::int64_t rows : {2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 255, 300})
    check({1, rows, rows, 2, 32, true});
  for (const std::int64_t rows : {2, 33, 64, 65, 128, 129, 300})
    check({1, rows, rows, 1, 64, false});
}

TEST_P(GpuAttention, AgreesWithItsDefinitionForEachWidth) {
  for (const std::int64_t width : {32, 40, 64, 72, 96, 128, 136, 192, 256}) {
    check({2, 70, 70, 2, width, true});
    check({1, 40, 75, 2, width, false});
  }
}

TEST_P(GpuAttention, AgreesWithItsDefinitionWithPadding) {
  for (const std::int64_t width : {32, 64, 128, 256}) {
    check({4, 66, 66, 2, width, true, {66, 0, 1, 65}});
    check({4, 5, 130, 1, width, false, {130, 0, 1, 129}});
  }
}

// The gradients of queries nearly cancel out, so that only y and the values' gradients are exact.
TEST_P(GpuAttention, AgreesWithItsDefinitionForLowScores) {
  for (const std::int64_t rows : {64, 100, 192, 128})
    for (const bool causal : {false, true})
      check({.items = 1,
             .queries = rows,
             .keys = rows,
             .heads = 1,
             .width = 64,
             .causal = causal,
             .has_low_scores = true});
}

TEST_P(GpuAttention, HasZerosWhereThereIsNothingToSee) {
  check({2, 3, 0, 1, 64, false});
  check({2, 0, 3, 1, 64, false});
}

TEST_P(GpuAttention, AgreesWithItsDefinitionForOneRow) {
  check({2, 1, 1, 2, 64, true});
  check({2, 1, 70, 2, 64, false});
  check({2, 70, 1, 2, 64, false});
}

INSTANTIATE_TEST_SUITE_P(Precisions, GpuAttention,
                         ::testing::Values(DType::float32, DType::float16, DType::bfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tasuki::testing
