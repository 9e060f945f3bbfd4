// Functions that add the gradients which others have passed for their input to their own:
// normalisations, and what Gradients promises to them.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "nn/backward.hpp"
#include "nn/check_gradients.hpp"
#include "nn/function.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/parameter.hpp"
#include "nn/recompute.hpp"
#include "reference.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::random_tensor;
using testing::relative_error;

std::vector<float> values(const Tensor& tensor) {
  const Tensor plain = tensor.plain().to(DType::float32);
  return {plain.span<float>().begin(), plain.span<float>().end()};
}

void backward(const Variable& y, const Tensor& dy) {
  run_backward({&y, 1}, {&dy, 1}, {});
}

// x, with a gradient of ones that contains what others passed; `given`: takes that gradient.
class Probe final : public Function {
 public:
  using Look = std::function<void(const Tensor& sum)>;
  Probe(Look look, Tensor* given) : look_(std::move(look)), given_(given) {}
  const char* name() const override { return "probe"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    const Tensor sum = gradients.sum(0);
    look_(sum);
    if (!gradients.needed(0)) return;
    const Tensor dx = Tensor::full(dy.shape(), 1);
    for (std::int64_t i = 0; sum && i < dx.count(); ++i)
      dx.data<float>()[i] += sum.data<float>()[i];
    if (given_ != nullptr) *given_ = dx;
    gradients.replace(0, dx);
  }

 private:
  Look look_;
  Tensor* given_;
};
// `other` may make a graph where x has no gradient.
Variable probe(const Variable& x, Probe::Look look, const Variable& other = {},
               Tensor* given = nullptr) {
  std::vector<Variable> inputs = {x};
  if (other.defined()) inputs.push_back(other);
  return Function::record(x.value().clone(), inputs,
                          [&] { return std::make_unique<Probe>(std::move(look), given); });
}

TEST(GradientSums, HaveWhatOtherFunctionsPassed) {
  const Tensor dy = Tensor::full({2}, 3);
  std::vector<float> seen;
  const Variable x(Tensor::full({2}, 1), true);
  const Variable h = F::leaky_relu(x, 0.5f);
  const Variable earlier = h + h;
  const Variable probed = probe(h, [&](const Tensor& sum) { seen = values(sum); });
  backward(earlier + probed + h + h, dy);
  EXPECT_EQ(seen, (std::vector<float>{6, 6})) << "of those that were made after it";
  EXPECT_EQ(values(x.grad()), (std::vector<float>{13, 13}));
}

// A third gradient is added to the memory of the one that was given up, and to no other.
TEST(GradientSums, AreOfTheirOwnMemoryAfterwards) {
  const Tensor dy = Tensor::full({2}, 3);
  Tensor given;
  const Variable x(Tensor::full({2}, 1), true);
  const Variable h = F::leaky_relu(x, 0.5f);
  const Variable third = F::leaky_relu(h, 0.5f);
  const Variable probed = probe(
      h, [](const Tensor&) {}, {}, &given);
  backward((third + probed) + h, dy);
  EXPECT_EQ(values(given), (std::vector<float>{7, 7}));
  EXPECT_EQ(values(x.grad()), (std::vector<float>{7, 7}));
  EXPECT_EQ(values(dy), (std::vector<float>{3, 3}));
}

TEST(GradientSums, AreUndefinedWhereThereIsNone) {
  const Tensor dy = Tensor::full({2}, 3);
  int looks = 0;
  const auto nothing = [&](const Tensor& sum) {
    ++looks;
    EXPECT_FALSE(sum.defined());
  };
  const Variable x(Tensor::full({2}, 1), true), constant(Tensor::full({2}, 1));
  backward(probe(x, nothing), dy);
  EXPECT_EQ(values(x.grad()), (std::vector<float>{1, 1}));
  backward(probe(constant, nothing, x), dy);
  // A parameter's gradient has its own memory.
  Parameter w("w", Tensor::full({2}, 1));
  backward(probe(w, nothing) + w, dy);
  EXPECT_EQ(values(w.grad()), (std::vector<float>{4, 4}));
  EXPECT_EQ(looks, 3);
}

// Gradients of leaves stay until they are cleared.
TEST(GradientSums, HaveWhatALeafHadBefore) {
  const Variable x(Tensor::full({2}, 1), true);
  const auto pass = [&] { backward(probe(x, [](const Tensor&) {}) + x, Tensor::full({2}, 3)); };
  pass();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{4, 4}));
  pass();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{8, 8}));
}

TEST(GradientSums, StayWhereAFunctionFails) {
  const Variable x(Tensor::full({2}, 1), true);
  const auto pass = [&](bool fails) {
    backward(probe(x,
                   [&](const Tensor&) {
                     if (fails) throw std::runtime_error("no");
                   }) +
                 x,
             Tensor::full({2}, 3));
  };
  pass(false);
  EXPECT_THROW(pass(true), std::runtime_error);
  EXPECT_EQ(values(x.grad()), (std::vector<float>{7, 7})) << "of the first pass and a part";
}

struct Norm {
  const char* name;
  Shape shape, channels;
  std::function<Variable(const Variable& x, const Variable& gamma, const Variable& beta)> of;
};

const Norm norms[] = {
    {"layer_norm",
     {3, 33},
     {33},
     [](const auto& x, const auto& gamma, const auto& beta) {
       return F::layer_norm(x, gamma, beta);
     }},
    {"group_norm",
     {3, 6, 5},
     {6},
     [](const auto& x, const auto& gamma, const auto& beta) {
       return F::group_norm(x, 3, gamma, beta);
     }},
    {"batch_norm",
     {3, 16, 3, 1},
     {16},
     [](const auto& x, const auto& gamma, const auto& beta) {
       return F::batch_norm(x, gamma, beta, 1e-5f, false);
     }},
    {"batch_norm and ReLU",
     {3, 16, 3, 1},
     {16},
     [](const auto& x, const auto& gamma, const auto& beta) {
       return F::batch_norm(x, gamma, beta, 1e-5f, true);
     }},
};

TEST(ResidualGradients, AreThoseOfDifferences) {
  for (const Norm& norm : norms) {
    if (std::string_view(norm.name).ends_with("ReLU")) continue;  // differences meet its kink
    SCOPED_TRACE(norm.name);
    const Variable x(random_tensor(norm.shape, 1), true),
        beta(random_tensor(norm.channels, 3), true);
    const Variable gamma(random_tensor(norm.channels, 2), true);
    check_gradients(
        [&](const std::vector<Variable>& in) {
          const Variable before = F::tanh(in[0]);
          return before + norm.of(in[0], in[1], in[2]) + in[0];
        },
        {x, gamma, beta}, {.absolute = 5e-3});
  }
}

// The gradient of the shortcut plus that of the normalisation alone, which other tests compare with
// float64.
TEST(ResidualGradients, AreTheSumOfBothPaths) {
  for (const Norm& norm : norms)
    for (const auto& [type, tolerance] :
         {std::pair{DType::float32, 1e-6}, {DType::bfloat16, 1e-2}, {DType::float16, 1e-3}}) {
      SCOPED_TRACE(fmt::format("{}, {}", norm.name, name_of(type)));
      const Tensor at = random_tensor(norm.shape, 1).to(type),
                   dy = random_tensor(norm.shape, 2).to(type);
      const Variable gamma(random_tensor(norm.channels, 3)), beta(random_tensor(norm.channels, 4));
      const Variable x(at, true), alone(at, true);
      backward(x + norm.of(x, gamma, beta), dy);
      backward(norm.of(alone, gamma, beta), dy);
      Tensor expected = alone.grad().to(DType::float32);
      const std::vector<float> shortcut = values(dy);
      for (std::size_t i = 0; i < shortcut.size(); ++i) expected.span<float>()[i] += shortcut[i];
      EXPECT_EQ(x.grad().dtype(), type);
      EXPECT_LT(relative_error(x.grad().to(DType::float32), expected), tolerance);
    }
}

// The shortcut passes one tensor to several values: it belongs to none of them.
TEST(ResidualGradients, DoNotOverwriteSharedMemory) {
  for (const Norm& norm : norms) {
    SCOPED_TRACE(norm.name);
    const Variable x(random_tensor(norm.shape, 1), true), z(random_tensor(norm.shape, 2), true);
    const Variable gamma(random_tensor(norm.channels, 3)), beta(random_tensor(norm.channels, 4));
    const Tensor dy = random_tensor(norm.shape, 5);
    const std::vector<float> before = values(dy);
    const Variable h = F::leaky_relu(x, 0.5f);
    backward((z + norm.of(h, gamma, beta)) + h, dy);
    EXPECT_EQ(values(z.grad()), before);
    EXPECT_EQ(values(dy), before);
  }
}

TEST(ResidualGradients, OfInputsThatNeedNoneLeaveTheParameters) {
  for (const Norm& norm : norms) {
    SCOPED_TRACE(norm.name);
    const Tensor at = random_tensor(norm.shape, 1), dy = random_tensor(norm.shape, 2);
    Parameter frozen("x", at.clone());
    frozen.freeze_at(at.clone());
    std::vector<std::vector<float>> found;
    for (const Variable& x : {Variable(at, true), Variable(at), Variable(frozen)}) {
      const Variable gamma(random_tensor(norm.channels, 3), true),
          beta(random_tensor(norm.channels, 4), true);
      backward(x + norm.of(x, gamma, beta), dy);
      EXPECT_EQ(x.grad().defined(), found.empty());
      found.push_back(values(gamma.grad()));
    }
    EXPECT_EQ(found[1], found[0]);
    EXPECT_EQ(found[2], found[0]);
  }
}

// A block's input is a leaf when the block is run again: the sum is rounded there as elsewhere.
TEST(ResidualGradients, HaveTheSameBitsWhereBlocksAreRecomputed) {
  for (const Norm& norm : norms)
    for (const DType type : {DType::float32, DType::bfloat16, DType::float16}) {
      SCOPED_TRACE(fmt::format("{}, {}", norm.name, name_of(type)));
      const Variable gamma(random_tensor(norm.channels, 3)), beta(random_tensor(norm.channels, 4));
      const Tensor dy = random_tensor(norm.shape, 2).to(type);
      const std::function<Variable(const Variable&)> block = [&](const Variable& in) {
        return in + norm.of(in, gamma, beta);
      };
      std::vector<std::vector<float>> found;
      for (const bool again : {false, true}) {
        const Variable x(random_tensor(norm.shape, 1).to(type), true);
        const Variable h = F::leaky_relu(x, 0.5f);
        backward(again ? recompute(block, h) : block(h), dy);
        found.push_back(values(x.grad()));
      }
      EXPECT_EQ(found[1], found[0]);
    }
}

}  // namespace
}  // namespace tasuki
