// Functions of arrays, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/math.hpp"
#include "nn/functions/matmul.hpp"
#include "nn/functions/rearrange.hpp"
#include "nn/functions/reduction.hpp"
#include "reference_check.hpp"

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

Variable run_map(const Inputs& in, const ReferenceCase& test) {
  const Variable& x = in.at("x");
  const auto& o = test.options;
  if (test.name == "neg") return neg(x);
  if (test.name == "exp") return exp(x);
  if (test.name == "log") return log(x);
  if (test.name == "sqrt") return sqrt(x);
  if (test.name == "abs") return abs(x);
  if (test.name == "pow") return pow(x, o["p"]);
  if (test.name == "clip") return clip(x, o["low"], o["high"]);
  if (test.name == "gelu") return gelu(x);
  if (test.name == "gelu_tanh") return gelu(x, /*approximate=*/true);
  if (test.name == "silu") return silu(x);
  if (test.name == "elu") return elu(x, o["alpha"]);
  if (test.name == "softplus") return softplus(x, o["beta"]);
  ADD_FAILURE() << "unknown case " << test.name;
  return x;
}

Variable run_arithmetic(const Inputs& in, const ReferenceCase& test) {
  const Variable &a = in.at("a"), &b = in.at("b");
  if (test.name == "add") return a + b;
  if (test.name == "sub") return a - b;
  if (test.name == "mul") return a * b;
  if (test.name == "div") return a / b;
  if (test.name == "pow") return pow(a, b);
  if (test.name == "maximum") return maximum(a, b);
  if (test.name == "minimum") return minimum(a, b);
  if (test.name == "where") return where(in.at("condition").value(), a, b);
  return 1 - a * b / 4 + (2 / b - a) * 3 - 0.5f - -a / b;
}

Variable run_reduction(const Inputs& in, const ReferenceCase& test) {
  const std::vector<int> axes = test.options["axes"];
  const bool keepdims = test.options["keepdims"];
  const Variable& x = in.at("x");
  if (test.name == "sum") return sum(x, axes, keepdims);
  if (test.name == "mean") return mean(x, axes, keepdims);
  if (test.name == "max") return max(x, axes, keepdims);
  return min(x, axes, keepdims);
}

Variable run_rearranged(const Inputs& in, const ReferenceCase& test) {
  const auto& o = test.options;
  if (test.name == "stack") return stack({in.at("a"), in.at("b"), in.at("a")}, o["axis"]);
  const Variable& x = in.at("x");
  if (test.name == "transpose") return transpose(x, o["axes"].get<std::vector<int>>());
  if (test.name == "broadcast_to") {
    const std::vector<std::int64_t> sizes = o["shape"];
    return broadcast_to(x, Shape(std::span<const std::int64_t>(sizes)));
  }
  if (test.name == "slice") {
    std::vector<AxisRange> ranges;
    for (const auto& range : o["ranges"]) ranges.push_back({range[0], range[1]});
    return slice(x, ranges);
  }
  if (test.name == "get_item") return get_item(x, o["index"], o["axis"]);
  if (test.name == "split") {
    const auto parts = split(x, 3, 1);
    return parts[2] * parts[0] + parts[0];
  }
  if (test.name == "split_at") {
    const auto parts = split_at(x, {1, 4});
    return parts[1] * parts[2];
  }
  if (test.name == "separate") {
    const auto items = separate(x, 1);
    return items[0] * items[1] - items[2];
  }
  std::vector<AxisPadding> widths;
  for (const auto& width : o["widths"]) widths.push_back({width[0], width[1]});
  return pad(x, widths, o["value"]);
}

TEST(ArrayReference, Arithmetic) {
  check_file("arithmetic", run_arithmetic);
}

TEST(ArrayReference, Reductions) {
  check_file("reductions", run_reduction);
}

TEST(ArrayReference, Rearranged) {
  check_file("rearranged", run_rearranged);
}

TEST(ArrayReference, Matmul) {
  check_file("matmul", [](const Inputs& in, const ReferenceCase& test) {
    return matmul(in.at("a"), in.at("b"), test.options["transpose_a"], test.options["transpose_b"]);
  });
}

TEST(ArrayReference, Maps) {
  check_file("maps", run_map);
}

}  // namespace
}  // namespace tasuki
