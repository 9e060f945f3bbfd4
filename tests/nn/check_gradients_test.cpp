// check_gradients() on functions that are right, and on some that are wrong in known places.
#include "nn/check_gradients.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "nn/connection.hpp"
#include "nn/function.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/normalization.hpp"
#include "reference.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;
using Variables = std::vector<Variable>;

Variable learnt(const Shape& shape, std::uint64_t seed) {
  return Variable(random_tensor(shape, seed), /*requires_grad=*/true);
}

// The sum of two arrays, whose gradient is off by `error` in one element of the second.
class OffSum final : public Function {
 public:
  explicit OffSum(float error) : error_(error) {}
  const char* name() const override { return "off_sum"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, dy.clone());
    const Tensor second = dy.clone();
    second.data<float>()[5] += error_;
    gradients.add(1, second);
  }

 private:
  float error_;
};

Variable off_sum(const Variable& a, const Variable& b, float error) {
  return Function::record((a + b).value(), {a, b}, [&] { return std::make_unique<OffSum>(error); });
}

TEST(CheckGradients, PassesWhereTheBackwardPassIsRight) {
  const Variables inputs = {learnt({3, 4}, 1), learnt({5, 4}, 2), learnt({5}, 3)};
  const Tensor before = inputs[1].value().clone();
  check_gradients([](const Variables& in) { return F::tanh(F::linear(in[0], in[1], in[2])); },
                  inputs);
  EXPECT_EQ(relative_error(inputs[1].value(), before), 0);
  check_gradients([](const Variables& in) { return F::conv2d(in[0], in[1], in[2], {}); },
                  {learnt({2, 3, 5, 5}, 4), learnt({4, 3, 3, 3}, 5), learnt({4}, 6)});
  check_gradients([](const Variables& in) { return F::layer_norm(in[0], in[1], in[2], 1e-3F); },
                  {learnt({3, 8}, 7), learnt({8}, 8), learnt({8}, 9)});
}

TEST(CheckGradients, NamesTheInputAndTheElementThatAreOff) {
  const Variables inputs = {learnt({3, 4}, 1), learnt({3, 4}, 2)};
  const auto sum = [](float error) {
    return [error](const Variables& in) { return off_sum(in[0], in[1], error); };
  };
  check_gradients(sum(0), inputs);
  const std::string message = error_of([&] { check_gradients(sum(0.25F), inputs); });
  EXPECT_THAT(message, HasSubstr("input 1 (3x4), element [1, 1]: the backward pass gives "));
  EXPECT_THAT(message, HasSubstr("1 of 12 elements differ"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("kink")));
  // Within wider bounds it passes.
  check_gradients(sum(0.25F), inputs, {.absolute = 0.3});
}

TEST(CheckGradients, ChecksParametersAndInputsWithoutAGradientToo) {
  Parameter b("b", random_tensor({3, 4}, 2));
  const auto sum = [](const Variables& in) { return off_sum(in[0], in[1], 1); };
  EXPECT_THAT(error_of([&] {
                check_gradients(sum, {learnt({3, 4}, 1), b});
              }),
              HasSubstr("input 1 (3x4), element [1, 1]"));
  // The result depends on it, but no gradient arrives.
  const auto forgotten = [](const Variables& in) { return in[0] + Variable(in[1].value()); };
  EXPECT_THAT(error_of([&] {
                check_gradients(forgotten, {learnt({2}, 1), learnt({2}, 2)});
              }),
              HasSubstr("input 1 (2), element [1]: the backward pass gives 0, differences"));
  // What requires none is not looked at.
  check_gradients(forgotten, {learnt({2}, 1), Variable(random_tensor({2}, 2))});
}

TEST(CheckGradients, SaysWhereAFunctionHasAKinkOrIsRandom) {
  const Variable x(Tensor::full({1}, 0.004), /*requires_grad=*/true);
  EXPECT_THAT(
      error_of([&] { check_gradients([](const Variables& in) { return F::relu(in[0]); }, {x}); }),
      HasSubstr("as near a kink"));
  check_gradients([](const Variables& in) { return F::relu(in[0]); }, {x}, {.step = 1e-3});
  int calls = 0;
  const auto counting = [&](const Variables& in) {
    return in[0] + Variable(Tensor::full({1}, ++calls));
  };
  EXPECT_THAT(error_of([&] { check_gradients(counting, {x}); }),
              HasSubstr("returned other values when it was called again"));
}

TEST(CheckGradients, ReportsWhatIsNotANumber) {
  const Variable x(Tensor::full({2}, -1), /*requires_grad=*/true);
  const auto root = [](const Variables& in) {
    return in[0] * Variable(Tensor::full({2}, std::nan("")));
  };
  EXPECT_THAT(error_of([&] { check_gradients(root, {x}); }), HasSubstr("2 of 2 elements differ"));
}

}  // namespace
}  // namespace tasuki::testing
