// N ranks that share a global batch learn what one rank learns from the whole of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "communicators.hpp"
#include "core/philox.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"
#include "own_rules.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

const RuleRegistration<testing::OwnMomentum> own{"own_momentum"};
const RuleRegistration<testing::OwnLars> own_with_norms{"own_lars"};

constexpr std::int64_t inputs = 12, hidden = 33, classes = 5;

class Perceptron : public Module {
 public:
  explicit Perceptron(std::uint64_t seed)
      : w1_(add_parameter("w1", {hidden, inputs}, normal)),
        b1_(add_parameter("b1", {hidden}, normal)),
        w2_(add_parameter("w2", {classes, hidden}, normal)),
        b2_(add_parameter("b2", {classes}, normal)) {
    initialize(seed);
  }
  Variable loss(const Tensor& x, const Tensor& t) const {
    const Variable h = F::relu(F::linear(Variable(x), w1_, b1_));
    return F::softmax_cross_entropy(F::linear(h, w2_, b2_), t);
  }

 private:
  static void normal(const Tensor& value, std::uint64_t seed, std::uint64_t stream) {
    RandomStream random(seed, stream);
    for (float& element : value.span<float>()) element = 0.3f * random.normal();
  }
  Parameter &w1_, &b1_, &w2_, &b2_;
};

struct Examples {
  Tensor x, t;

  static Examples random(std::int64_t count, std::uint64_t seed) {
    Examples made{Tensor::empty({count, inputs}), Tensor::empty({count}, DType::int32)};
    RandomStream random(seed);
    for (float& value : made.x.span<float>()) value = random.normal();
    for (std::int32_t& label : made.t.span<std::int32_t>())
      label = static_cast<std::int32_t>(random.below(classes));
    return made;
  }
  Examples slice(std::int64_t begin, std::int64_t end) const {
    return {x.slice(begin, end), t.slice(begin, end)};
  }
};

struct Case {
  std::string communicator, optimizer;
};

class NpInvariance : public ::testing::TestWithParam<Case> {};

TEST_P(NpInvariance, WeightsMatchASingleRank) {
  if (!testing::is_possible_here(GetParam().communicator))
    GTEST_SKIP() << GetParam().communicator << " does not allow this placement of ranks";
  const auto communicator = create_communicator(GetParam().communicator);
  const int rank = communicator->rank(), size = communicator->size();
  // Ranks start apart; rank 0's weights win.
  Perceptron shared(static_cast<std::uint64_t>(rank)), alone(0);
  const auto many =
      create_multi_node_optimizer(create_optimizer(GetParam().optimizer), *communicator);
  const auto one = create_optimizer(GetParam().optimizer);
  for (Optimizer* optimizer : {many.get(), one.get()}) {
    optimizer->add_hook(weight_decay(1e-3));
    optimizer->add_hook(gradient_clipping(0.5));
    optimizer->add_hook(gradient_lars());
    if (!optimizer->rule().rate_name().empty())
      optimizer->add_group({.pattern = "w2", .rate_factor = 0.5});
    optimizer->add_group({.pattern = "**", .weight_decay = 0, .is_1d_only = true});
    optimizer->freeze("b1");
  }
  many->setup(shared);
  one->setup(alone);

  // Uneven shares: 17 examples divide by no number of ranks here; with 3, some ranks have none.
  for (const std::int64_t batch : {17, 3, 17, 16, 1, 17, 17, 17}) {
    const Examples all = Examples::random(batch, static_cast<std::uint64_t>(one->t()));
    const std::int64_t share = (batch + size - 1) / size;
    const std::int64_t begin = std::min(batch, rank * share), end = std::min(batch, begin + share);
    const Examples own = all.slice(begin, end);
    many->update([&] { return shared.loss(own.x, own.t); }, end - begin);
    one->update([&] { return alone.loss(all.x, all.t); }, batch);
  }

  for (std::size_t i = 0; i < one->arena().entries().size(); ++i) {
    const auto found = many->arena().entries()[i].parameter->value().span<float>();
    const auto expected = one->arena().entries()[i].parameter->value().span<float>();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < found.size(); ++j)
      ASSERT_NEAR(found[j], expected[j], 1e-5) << one->arena().entries()[i].path << " " << j;
  }
  // And ranks never drift apart, not even in the last bit.
  const std::vector<Tensor> weights = communicator->allgather(many->arena().values());
  for (const Tensor& other : weights)
    EXPECT_TRUE(std::ranges::equal(other.span<float>(), many->arena().values().span<float>()));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& optimizer : optimizer_names()) all.push_back({"naive", optimizer});
  for (const std::string& communicator : testing::summing_communicators())
    if (communicator != "naive") all.push_back({communicator, "momentum_sgd"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, NpInvariance, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.communicator + "_" + info.param.optimizer;
});

}  // namespace
}  // namespace tasuki
