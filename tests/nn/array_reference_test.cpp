// Functions of arrays, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "reference_check.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

Variable run_map(const Inputs& in, const ReferenceCase& test) {
  const Variable& x = in.at("x");
  const auto& o = test.options;
  if (test.name == "neg") return F::neg(x);
  if (test.name == "exp") return F::exp(x);
  if (test.name == "log") return F::log(x);
  if (test.name == "sqrt") return F::sqrt(x);
  if (test.name == "abs") return F::abs(x);
  if (test.name == "pow") return F::pow(x, o["p"]);
  if (test.name == "clip") return F::clip(x, o["low"], o["high"]);
  if (test.name == "gelu") return F::gelu(x);
  if (test.name == "gelu_tanh") return F::gelu(x, /*approximate=*/true);
  if (test.name == "silu") return F::silu(x);
  if (test.name == "elu") return F::elu(x, o["alpha"]);
  if (test.name == "softplus") return F::softplus(x, o["beta"]);
  ADD_FAILURE() << "unknown case " << test.name;
  return x;
}

Variable run_arithmetic(const Inputs& in, const ReferenceCase& test) {
  const Variable &a = in.at("a"), &b = in.at("b");
  if (test.name == "add") return a + b;
  if (test.name == "sub") return a - b;
  if (test.name == "mul") return a * b;
  if (test.name == "div") return a / b;
  if (test.name == "pow") return F::pow(a, b);
  if (test.name == "maximum") return F::maximum(a, b);
  if (test.name == "minimum") return F::minimum(a, b);
  if (test.name == "where") return F::where(in.at("condition").value(), a, b);
  return 1 - a * b / 4 + (2 / b - a) * 3 - 0.5f - -a / b;
}

Variable run_reduction(const Inputs& in, const ReferenceCase& test) {
  const std::vector<int> axes = test.options["axes"];
  const bool keepdims = test.options["keepdims"];
  const Variable& x = in.at("x");
  if (test.name == "sum") return F::sum(x, axes, keepdims);
  if (test.name == "mean") return F::mean(x, axes, keepdims);
  if (test.name == "max") return F::max(x, axes, keepdims);
  return F::min(x, axes, keepdims);
}

Variable run_rearranged(const Inputs& in, const ReferenceCase& test) {
  const auto& o = test.options;
  if (test.name == "stack") return F::stack({in.at("a"), in.at("b"), in.at("a")}, o["axis"]);
  const Variable& x = in.at("x");
  if (test.name == "transpose") return F::transpose(x, o["axes"].get<std::vector<int>>());
  if (test.name == "broadcast_to") {
    const std::vector<std::int64_t> sizes = o["shape"];
    return F::broadcast_to(x, Shape(std::span<const std::int64_t>(sizes)));
  }
  if (test.name == "slice") {
    std::vector<F::AxisRange> ranges;
    for (const auto& range : o["ranges"]) ranges.push_back({range[0], range[1]});
    return F::slice(x, ranges);
  }
  if (test.name == "get_item") return F::get_item(x, o["index"], o["axis"]);
  if (test.name == "split") {
    const auto parts = F::split(x, 3, 1);
    return parts[2] * parts[0] + parts[0];
  }
  if (test.name == "split_at") {
    const auto parts = F::split_at(x, {1, 4});
    return parts[1] * parts[2];
  }
  if (test.name == "separate") {
    const auto items = F::separate(x, 1);
    return items[0] * items[1] - items[2];
  }
  std::vector<F::AxisPadding> widths;
  for (const auto& width : o["widths"]) widths.push_back({width[0], width[1]});
  return F::pad(x, widths, o["value"]);
}

TEST(ArrayReference, Arithmetic) {
  check_file("arithmetic", run_arithmetic);
}

TEST(ArrayReference, Reductions) {
  check_file("reductions", run_reduction);
}

TEST(ArrayReference, Rearrangements) {
  check_file("rearranged", run_rearranged);
}

TEST(ArrayReference, Matmul) {
  check_file("matmul", [](const Inputs& in, const ReferenceCase& test) {
    return F::matmul(in.at("a"), in.at("b"), test.options["transpose_a"],
                     test.options["transpose_b"]);
  });
}

TEST(ArrayReference, Maps) {
  check_file("maps", run_map);
}

}  // namespace
}  // namespace tasuki
