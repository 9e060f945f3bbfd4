// Functions of arrays, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "reference_check.hpp"
#include "tasuki/nn/functions/activation.hpp"
#include "tasuki/nn/functions/math.hpp"

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

TEST(ArrayReference, Maps) {
  check_file("maps", run_map);
}

}  // namespace
}  // namespace tasuki
