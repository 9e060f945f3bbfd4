// Local response normalisation, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "reference_check.hpp"
#include "tasuki/nn/functions/local_response_norm.hpp"

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(ResponseNormReference, LocalResponseNorm) {
  check_file("response_norms", [](const Inputs& in, const ReferenceCase& test) {
    const auto& o = test.options;
    return local_response_norm(in.at("x"), {o["n"], o["k"], o["alpha"], o["beta"]});
  });
}

}  // namespace
}  // namespace tasuki
