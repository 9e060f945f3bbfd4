#include "extreme_values.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

using Real = long double;
constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::nanf("");

// Numbers below this may count as 0.
constexpr Real least_normal = 1.2e-38L;

Tensor on_device(const std::vector<float>& values, const Shape& shape, Device device) {
  return Tensor::from(std::span<const float>(values), shape).to(device);
}
Variable leaf(const std::vector<float>& values, const Shape& shape, Device device) {
  return Variable(on_device(values, shape, device), true);
}
Variable row_of(const std::vector<float>& values, Device device) {
  return leaf(values, {std::ssize(values)}, device);
}
std::vector<float> values_of(const Tensor& x) {
  const Tensor host = x.plain().to(Device::cpu());
  return {host.span<float>().begin(), host.span<float>().end()};
}

// NaN for NaN, infinity for what floats cannot hold, else within the tolerances.
void expect_value(float found, Real expected, Real relative, Real absolute,
                  const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << what << ": " << found << " instead of NaN";
    return;
  }
  constexpr Real largest = std::numeric_limits<float>::max();
  if (std::abs(expected) > largest) {
    // Rounding may decide about the last finite numbers.
    EXPECT_TRUE(std::abs(found) >= 0.99999f * std::numeric_limits<float>::max() &&
                std::signbit(found) == std::signbit(expected))
        << what << ": " << found << " instead of " << static_cast<double>(expected);
    return;
  }
  const Real apart = std::abs(static_cast<Real>(found) - expected);
  EXPECT_TRUE(apart <= relative * std::abs(expected) + absolute)
      << what << ": " << found << " instead of " << static_cast<double>(expected);
}

// Of both signs, more than a vector holds.
std::vector<float> places() {
  std::vector<float> all{0, nan};
  for (const float size : {1e-45f, 1e-40f, 1.2e-38f, 1e-30f, 1e-10f, 1e-3f, 0.5f,  1.0f,    2.9f,
                           5.0f,   12.0f,  20.0f,    50.0f,  87.5f,  88.5f, 89.0f, 104.0f,  150.0f,
                           1e4f,   1e10f,  1e19f,    1e20f,  1e30f,  1e38f, 3e38f, infinity}) {
    all.push_back(size);
    all.push_back(-size);
  }
  return all;
}

Real sigmoid_of(Real x) {
  return 1 / (1 + std::exp(-x));
}
// Limits at infinity, where a definition of products gives none.
Real at_ends(Real x, Real low, Real high, Real between) {
  return std::isinf(x) ? (x < 0 ? low : high) : between;
}
Real normal_probability(Real x) {
  return std::erfc(-x / std::sqrt(2.0L)) / 2;
}
Real tanh_probability(Real x) {
  return sigmoid_of(2 * std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x));
}

struct Function1 {
  const char* name;
  std::function<Variable(const Variable&)> f;
  std::function<Real(Real)> value, slope;
  Real absolute = 0;  // of values and slopes near 0
};

std::vector<Function1> elementwise_functions() {
  const auto one_above_0 = [](Real x) -> Real { return x > 0 ? 1 : 0; };
  std::vector<Function1> all{
      {"relu", [](const Variable& x) { return F::relu(x); }, [](Real x) { return x < 0 ? 0 : x; },
       one_above_0},
      {"leaky_relu", [](const Variable& x) { return F::leaky_relu(x, 0.25f); },
       [](Real x) { return x > 0 ? x : 0.25L * x; },
       [](Real x) -> Real { return x > 0 ? 1 : 0.25L; }},
      {"sigmoid", [](const Variable& x) { return F::sigmoid(x); }, sigmoid_of,
       [](Real x) { return sigmoid_of(x) * sigmoid_of(-x); }, 1e-7L},
      {"tanh", [](const Variable& x) { return F::tanh(x); }, [](Real x) { return std::tanh(x); },
       [](Real x) { return 1 / std::cosh(x) / std::cosh(x); }, 3e-7L},
      {"gelu", [](const Variable& x) { return F::gelu(x); },
       [](Real x) { return at_ends(x, 0, x, x * normal_probability(x)); },
       [](Real x) {
         const Real density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L));
         return at_ends(x, 0, 1, normal_probability(x) + x * density);
       },
       2e-6L},
      {"gelu_tanh", [](const Variable& x) { return F::gelu(x, true); },
       [](Real x) { return at_ends(x, 0, x, x * tanh_probability(x)); },
       [](Real x) {
         const Real p = tanh_probability(x), inner = 2 * std::sqrt(2 / std::acos(-1.0L));
         // Far from 0 the slope is 0 or 1, and the product no number.
         if (std::abs(x) > 1e3L) return x < 0 ? Real{0} : Real{1};
         return p + x * p * (1 - p) * inner * (1 + 3 * 0.044715L * x * x);
       },
       2e-6L},
      {"silu", [](const Variable& x) { return F::silu(x); },
       [](Real x) { return at_ends(x, 0, x, x * sigmoid_of(x)); },
       [](Real x) { return at_ends(x, 0, 1, sigmoid_of(x) * (1 + x * sigmoid_of(-x))); }, 2e-36L},
      {"elu", [](const Variable& x) { return F::elu(x, 0.5f); },
       [](Real x) { return x > 0 ? x : 0.5L * std::expm1(x); },
       [](Real x) { return x > 0 ? 1 : 0.5L * std::exp(x); }, 1e-7L},
      {"softplus", [](const Variable& x) { return F::softplus(x, 2); },
       [](Real x) {
         return x > 0 ? x + std::log1p(std::exp(-2 * x)) / 2 : std::log1p(std::exp(2 * x)) / 2;
       },
       [](Real x) { return sigmoid_of(2 * x); }},
      {"softplus of the other side", [](const Variable& x) { return F::softplus(x, -1); },
       [](Real x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); },
       [](Real x) { return sigmoid_of(-x); }},
      {"exp", [](const Variable& x) { return F::exp(x); }, [](Real x) { return std::exp(x); },
       [](Real x) { return std::exp(x); }},
      {"sqrt", [](const Variable& x) { return F::sqrt(x); }, [](Real x) { return std::sqrt(x); },
       [](Real x) { return 0.5L / std::sqrt(x); }},
      {"abs", [](const Variable& x) { return F::abs(x); }, [](Real x) { return std::abs(x); },
       [](Real x) -> Real { return x > 0 ? 1 : (x < 0 ? -1 : 0); }},
      {"clip", [](const Variable& x) { return F::clip(x, -2, 3); },
       [](Real x) { return x < -2 ? -2 : (x > 3 ? 3 : x); },
       [](Real x) -> Real { return x < -2 || x > 3 ? 0 : 1; }},
      {"square", [](const Variable& x) { return F::pow(x, 2); }, [](Real x) { return x * x; },
       [](Real x) { return 2 * x; }},
      {"cube", [](const Variable& x) { return F::pow(x, 3); }, [](Real x) { return x * x * x; },
       [](Real x) { return 3 * x * x; }},
      {"a number over x", [](const Variable& x) { return 3 / x; }, [](Real x) { return 3 / x; },
       [](Real x) { return -3 / x / x; }},
      {"affine", [](const Variable& x) { return 0.5f - x; }, [](Real x) { return 0.5L - x; },
       [](Real) -> Real { return -1; }},
  };
  return all;
}

// By its bits: threads that take subnormal numbers for 0 would also do so here.
bool is_subnormal(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x7F800000U) == 0 && (bits & 0x007FFFFFU) != 0;
}

}  // namespace

void check_extreme_maps(Device device) {
  const std::vector<float> all = places();
  for (const Function1& each : elementwise_functions()) {
    const Variable x = row_of(all, device);
    const Variable y = each.f(x);
    F::sum(y).backward();
    const std::vector<float> found = values_of(y.value()), slopes = values_of(x.grad());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string what = fmt::format("{} at {}", each.name, all[i]);
      const Real absolute = each.absolute + least_normal;
      const bool counts_as_0 = is_subnormal(all[i]) && found[i] == each.value(0);
      if (!counts_as_0) expect_value(found[i], each.value(all[i]), 1e-6L, absolute, what);
      // Slopes of NaN are a matter of taste, and those of subnormal numbers jump at 0 or have no
      // bound there.
      if (!std::isnan(all[i]) && !is_subnormal(all[i]))
        expect_value(slopes[i], each.slope(all[i]), 2e-6L, absolute, "slope of " + what);
    }
  }
}

void check_extreme_pairs(Device device) {
  // The divisor's square leaves the range of floats, the gradient does not.
  const std::vector<float> a{3, 1e20f, 1e38f, 2e-20f, 1e-30f, -5, 1e10f},
      b{2, 2e25f, -4e30f, 3e-25f, 1e-20f, 1e-15f, 1e30f};
  const Variable left = row_of(a, device), right = row_of(b, device);
  F::sum(left / right).backward();
  const std::vector<float> of_left = values_of(left.grad()), of_right = values_of(right.grad());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Real x = a[i], y = b[i];
    const std::string what = fmt::format("{} / {}", a[i], b[i]);
    expect_value(of_left[i], 1 / y, 1e-6L, least_normal, "dividend of " + what);
    expect_value(of_right[i], -x / (y * y), 1e-6L, least_normal, "divisor of " + what);
  }

  // One of the two gets each gradient, also where one of them is NaN.
  using Function2 = Variable (*)(const Variable&, const Variable&);
  for (const Function2 f : {Function2{F::maximum}, Function2{F::minimum}}) {
    const Variable p = row_of({nan, 1, nan, infinity, -infinity, 2}, device);
    const Variable q = row_of({1, nan, nan, 2, -infinity, 3}, device);
    const Variable y = f(p, q);
    F::sum(y).backward();
    const std::vector<float> result = values_of(y.value()), first = values_of(p.grad()),
                             second = values_of(q.grad());
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::isnan(result[i])) << i;
      EXPECT_EQ(second[i], 1) << i;
    }
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i] + second[i], 1) << i;
  }

  const Variable x = leaf({1, nan, 3, 4, 4, -infinity}, {2, 3}, device);
  F::sum(F::max(x, {1})).backward();
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{0, 1, 0, 1, 1, 0})) << "NaN is the largest";
}

namespace {

constexpr std::int64_t classes = 3;

// Rows whose softmax floats can hold.
const std::vector<std::vector<float>>& score_rows() {
  static const std::vector<std::vector<float>> rows{{1e4f, 9999, 9998},
                                                    {-1e4f, -9999, -9998},
                                                    {1e6f, 1e6f - 1, 1e6f - 0.5f},
                                                    {3e7f, 3e7f - 2, 0},
                                                    {1e30f, 1e30f, 1e30f},
                                                    {-1e38f, 0, 1e38f},
                                                    {0, -90, -1e5f},
                                                    {1e-40f, 0, -1e-40f},
                                                    {-infinity, 0, 1},
                                                    {-3e38f, -3e38f, -infinity}};
  return rows;
}

// log softmax
std::vector<Real> logarithms_of(const std::vector<float>& row) {
  Real top = row[0], sum = 0;
  for (const float x : row) top = std::max<Real>(top, x);
  for (const float x : row) sum += std::exp(x - top);
  std::vector<Real> all;
  for (const float x : row) all.push_back((x - top) - std::log(sum));
  return all;
}

// The rows as they are, or as columns: N x C x pixels.
Variable scores_of(const std::vector<std::vector<float>>& rows, bool in_columns, Device device) {
  const std::int64_t count = std::ssize(rows);
  std::vector<float> values(rows.size() * classes);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < classes; ++c)
      values[in_columns ? c * rows.size() + i : i * classes + c] = rows[i][c];
  return leaf(values, in_columns ? Shape{1, classes, count} : Shape{count, classes}, device);
}
// Element c of row i of what has the order of scores_of().
float element(const std::vector<float>& values, std::size_t i, std::size_t c, bool in_columns) {
  return values[in_columns ? c * (values.size() / classes) + i : i * classes + c];
}

void check_softmax(bool in_columns, Device device) {
  const auto& rows = score_rows();
  const Variable x = scores_of(rows, in_columns, device);
  const std::vector<float> plain = values_of(F::softmax(x).value());
  const Variable y = F::log_softmax(x);
  // Of the last class alone: dx = target - softmax.
  F::sum(F::slice(y, {{}, {classes - 1, classes}})).backward();
  const std::vector<float> logarithm = values_of(y.value()), slopes = values_of(x.grad());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < classes; ++c) {
      const Real expected = logarithms_of(rows[i])[c];
      const std::string what = fmt::format("row {}, class {}", i, c);
      expect_value(element(plain, i, c, in_columns), std::exp(expected), 1e-6L, 1e-37L, what);
      expect_value(element(logarithm, i, c, in_columns), expected, 1e-6L, 1e-7L, what);
      expect_value(element(slopes, i, c, in_columns),
                   (c == classes - 1 ? 1 : 0) - std::exp(expected), 1e-6L, 1e-7L,
                   "slope of " + what);
    }
}

// With `smoothing`, or as the loss of plain rows.
void check_cross_entropy(bool in_columns, float smoothing, Device device) {
  // Rows that do not count may have any scores.
  std::vector<std::vector<float>> rows = score_rows();
  const std::size_t counted = rows.size();
  rows.push_back({infinity, 0, 1});
  rows.push_back({nan, nan, nan});
  // Smoothing makes every class count, also those of probability 0.
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < counted && smoothing > 0)
      for (float& score : rows[i]) score = std::isinf(score) ? -1000 : score;
    labels.push_back(i < counted ? (std::isinf(rows[i][2]) ? 1 : 2) : -1);
  }
  const Variable x = scores_of(rows, in_columns, device);
  const Shape shape = in_columns ? Shape{1, std::ssize(rows)} : Shape{std::ssize(rows)};
  const Tensor t = Tensor::from(std::span<const std::int64_t>(labels), shape).to(device);
  const Variable loss = F::softmax_cross_entropy(x, t, {.label_smoothing = smoothing});
  loss.backward(static_cast<float>(counted));
  const std::vector<float> slopes = values_of(x.grad());
  Real total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < classes; ++c) {
      const std::string what = fmt::format("slope of row {}, class {}", i, c);
      if (i >= counted) {
        EXPECT_EQ(element(slopes, i, c, in_columns), 0) << what;
        continue;
      }
      const Real logarithm = logarithms_of(rows[i])[c];
      const bool is_label = static_cast<std::int64_t>(c) == labels[i];
      const Real target = (is_label ? 1 - Real{smoothing} : 0) + Real{smoothing} / classes;
      if (target > 0) total -= target * logarithm;
      expect_value(element(slopes, i, c, in_columns), std::exp(logarithm) - target, 1e-6L, 2e-7L,
                   what);
    }
  expect_value(static_cast<float>(loss.value().to(Device::cpu()).item()), total / counted, 1e-6L, 0,
               "loss");
}

}  // namespace

void check_extreme_scores(Device device) {
  for (const bool in_columns : {false, true}) {
    SCOPED_TRACE(in_columns ? "columns" : "rows");
    check_softmax(in_columns, device);
    for (const float smoothing : {0.0f, 0.125f}) check_cross_entropy(in_columns, smoothing, device);
  }
  // The general way through rows.
  const auto& row = score_rows()[0];
  const Variable x = leaf(row, {1, 1, classes}, device);
  const std::int32_t label = 0;
  const Tensor t = Tensor::from(std::span<const std::int32_t>(&label, 1), {1, 1}).to(device);
  const Variable loss = F::softmax_cross_entropy(x, t, {.axis = -1});
  loss.backward();
  const std::vector<float> slopes = values_of(x.grad());
  for (std::size_t c = 0; c < classes; ++c)
    expect_value(slopes[c], std::exp(logarithms_of(row)[c]) - (c == 0 ? 1 : 0), 1e-6L, 1e-7L,
                 "general rows");
}

void check_extreme_losses(Device device) {
  // Losses one by one, as a mean would hide small ones behind large ones.
  std::vector<float> scores, targets;
  for (const float x : {-1e38f, -150.0f, -88.5f, -20.0f, 0.5f, 20.0f, 88.5f, 1e4f, 1e38f})
    for (const float t : {0.0f, 1.0f, 0.9999999f}) {
      scores.push_back(x);
      targets.push_back(t);
    }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const Real x = scores[i], t = targets[i];
    const Variable loss = F::sigmoid_cross_entropy(leaf({scores[i]}, {1}, device),
                                                   on_device({targets[i]}, {1}, device));
    const Real expected = (x > 0 ? (1 - t) * x : -t * x) + std::log1p(std::exp(-std::abs(x)));
    expect_value(values_of(loss.value())[0], expected, 1e-6L, least_normal,
                 fmt::format("score {}, target {}", scores[i], targets[i]));
  }
  const Variable all = row_of(scores, device);
  F::sigmoid_cross_entropy(all, on_device(targets, all.shape(), device))
      .backward(static_cast<float>(scores.size()));
  const std::vector<float> slopes = values_of(all.grad());
  for (std::size_t i = 0; i < scores.size(); ++i)
    expect_value(slopes[i], sigmoid_of(scores[i]) - targets[i], 1e-6L, 1e-7L,
                 fmt::format("slope of score {}, target {}", scores[i], targets[i]));

  // What does not count may be anything.
  const std::vector<float> some{2, infinity, nan};
  const std::int32_t labels[] = {0, -1, -1};
  const Variable x = row_of(some, device);
  const Variable loss = F::sigmoid_cross_entropy(
      x, Tensor::from(std::span<const std::int32_t>(labels), {3}).to(device));
  loss.backward();
  expect_value(values_of(loss.value())[0], 2 + std::log1p(std::exp(-2.0L)), 1e-6L, 0, "ignored");
  EXPECT_EQ(values_of(x.grad())[1], 0);
  EXPECT_EQ(values_of(x.grad())[2], 0);

  for (const float place : {nan, infinity, -infinity, -1e38f, -0.6f, 0.25f, 1e-30f, 1e20f}) {
    const std::string what = fmt::format("huber at {}", place);
    const Variable one = leaf({place}, {1}, device);
    const Variable found = F::huber_loss(one, on_device({0}, {1}, device), 0.5f);
    found.backward();
    const Real d = place;
    const Real expected = std::abs(d) <= 0.5L ? d * d / 2 : (std::abs(d) - 0.25L) / 2;
    const Real slope = d < -0.5L ? -0.5L : (d > 0.5L ? 0.5L : d);
    expect_value(values_of(found.value())[0], expected, 1e-6L, least_normal, what);
    expect_value(values_of(one.grad())[0], slope, 1e-6L, least_normal, "slope of " + what);
  }
}

void check_extreme_batches(Device device) {
  // Channels: a large mean, and an outlier in each of three places.
  constexpr std::int64_t items = 33, channels = 4, pixels = 30 * 30, count = items * pixels;
  const Tensor host = Tensor::empty({items, channels, 30, 30});
  const auto at = [&](std::int64_t c, std::int64_t i) -> float& {
    return host.data<float>()[(i / pixels * channels + c) * pixels + i % pixels];
  };
  for (std::int64_t i = 0; i < count; ++i) {
    at(0, i) = 3000 + static_cast<float>(i % 7) / 4;
    for (std::int64_t c = 1; c < channels; ++c) at(c, i) = 0.1f;
  }
  for (std::int64_t c = 1; c < channels; ++c) at(c, (c - 1) * (count - 1) / 2) = 1000;

  const Tensor x = host.to(device), ones = Tensor::full({channels}, 1, DType::float32, device);
  const BatchNormResult whole =
      backend(device).batch_norm(x, ones, Tensor::zeros({channels}, DType::float32, device), 1e-5f,
                                 /*relu=*/false);
  const Tensor sums = backend(device).batch_norm_sums(x).to(Device::cpu());
  const std::vector<float> means = values_of(whole.mean), variances = values_of(whole.variance);
  for (std::int64_t c = 0; c < channels; ++c) {
    Real mean = 0, variance = 0;
    for (std::int64_t i = 0; i < count; ++i) mean += Real{at(c, i)} / count;
    for (std::int64_t i = 0; i < count; ++i)
      variance += (at(c, i) - mean) * (at(c, i) - mean) / count;
    const std::string what = fmt::format("channel {}", c);
    const auto channel = static_cast<std::size_t>(c);
    expect_value(means[channel], mean, 1e-5L, 0, "mean of " + what);
    expect_value(variances[channel], variance, 1e-4L, 0, "variance of " + what);
    const double* const sum = sums.data<double>();
    const double found = sum[c] / count;
    expect_value(static_cast<float>(found), mean, 1e-5L, 0, "mean by sums of " + what);
    expect_value(static_cast<float>(sum[channels + c] / count - found * found), variance, 1e-4L, 0,
                 "variance by sums of " + what);
  }
}

}  // namespace tasuki::testing
