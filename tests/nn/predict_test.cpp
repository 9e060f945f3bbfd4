#include "nn/predict.hpp"

#include <gtest/gtest.h>

#include "nn/functions/activation.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "reference.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::random_tensor;
using testing::relative_error;

TEST(Predict, RunsAsEvaluationDoesWithoutAGraph) {
  Sequential net;
  net.append("normal", std::make_unique<BatchNorm>(3)).append([](const Variable& x) {
    return F::dropout(x, 0.5);
  });
  net.initialize(1);
  const Tensor x = random_tensor({8, 3}, 1);
  const Tensor statistics = net.buffers()[0].tensor->clone();
  const Tensor y = predict(net, x);
  EXPECT_LT(relative_error(y, x), 1e-4) << "mean 0 and variance 1, nothing dropped";
  EXPECT_EQ(relative_error(*net.buffers()[0].tensor, statistics), 0);
  bool was_recorded = true;
  predict([&] {
    Variable found = net(Variable(x));
    was_recorded = found.requires_grad();
    return found;
  });
  EXPECT_FALSE(was_recorded);
  EXPECT_TRUE(TrainingMode::is_training());
  EXPECT_TRUE(net(Variable(x)).requires_grad());
}

}  // namespace
}  // namespace tasuki
