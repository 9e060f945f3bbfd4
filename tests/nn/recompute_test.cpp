// Blocks that are computed again in the backward pass: the same bits, and less memory.
#include "nn/recompute.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "core/philox.hpp"
#include "core/trace.hpp"
#include "models/cnn10.hpp"
#include "models/gpt.hpp"
#include "models/resnet.hpp"
#include "models/seq2seq.hpp"
#include "models/wide_resnet.hpp"
#include "nn/backward.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/random.hpp"
#include "nn/sequential.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

namespace F = functions;
using testing::error_of;
using ::testing::HasSubstr;

Tensor drawn(const Shape& shape, std::uint64_t seed) {
  Tensor made = Tensor::empty(shape);
  RandomStream random(7, seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

using Values = std::map<std::string, std::vector<float>>;
void keep(Values& values, const std::string& name, const Tensor& tensor) {
  const Tensor plain = tensor.plain().to(DType::float32);
  values[name] = {plain.span<float>().begin(), plain.span<float>().end()};
}

// What a pass of a model leaves: its loss, the gradients and the running statistics.
Values values_after(Module& model, const std::function<Variable()>& loss) {
  RandomKeys keys(3);
  keys.follow(2, {});
  Values values;
  for (int pass = 0; pass < 2; ++pass) {
    model.clear_grads();
    const Variable found = [&] {
      const RandomScope scope(keys);
      return loss();
    }();
    keep(values, fmt::format("loss {}", pass), found.value());
    found.backward(2);
  }
  for (const auto& [path, parameter] : model.parameters()) {
    parameter->fill_missing_grad();
    keep(values, path, parameter->grad());
  }
  for (const auto& [path, buffer] : model.buffers())
    keep(values, "buffer " + path, buffer->to(DType::float32));
  return values;
}

struct Net : Module {
  Linear l1{6, 8}, l2{8, 8}, l3{8, 1};
  BatchNorm bn{8};
  bool recomputes = false;

  Net() {
    add("l1", l1);
    add("l2", l2);
    add("l3", l3);
    add("bn", bn);
    initialize(5);
  }
  std::vector<Variable> block(const BlockFunction& function, const std::vector<Variable>& inputs) {
    return recomputes ? recompute(function, inputs) : function(inputs);
  }
  // Two results, of which one is used twice; a block within, and a layer that is also used outside.
  Variable loss(const Tensor& x, const Tensor& y) {
    const auto inner = [this](const std::vector<Variable>& in) {
      return std::vector{F::dropout(F::relu(bn(l2(in[0]))), 0.3F)};
    };
    const auto outer = [this, inner](const std::vector<Variable>& in) {
      const Variable h = F::dropout(l1(in[0]), 0.2F);
      const Variable again = block(inner, {h}).front();
      return std::vector{again + in[1], h * in[1]};
    };
    const Variable scale = l2(Variable(y));
    const std::vector<Variable> results = block(outer, {Variable(x), scale});
    const Variable sum = results[0] * results[1] + results[0];
    return F::mean_squared_error(l3(F::dropout(sum, 0.1F)), Tensor::zeros({x.shape()[0], 1}));
  }
};

Values of_net(bool recomputes) {
  Net net;
  net.recomputes = recomputes;
  return values_after(net, [&] { return net.loss(drawn({5, 6}, 1), drawn({5, 8}, 2)); });
}

TEST(Recompute, HasTheSameBits) {
  const Values expected = of_net(false);
  EXPECT_EQ(of_net(true), expected);
  EXPECT_NE(expected.at("buffer bn/avg_mean"), std::vector<float>(8, 0));
}

// Parameters that are frozen or left out, and gradients of inputs.
TEST(Recompute, ComputesTheGradientsThatAreWanted) {
  const auto gradients = [](bool recomputes) {
    Net net;
    net.recomputes = recomputes;
    Parameter& frozen = *net.parameters()[0].parameter;
    frozen.freeze_at(frozen.value().clone());
    const Variable x(drawn({5, 6}, 1), /*requires_grad=*/true);
    const auto block = [&net](const std::vector<Variable>& in) {
      return std::vector{F::relu(net.l2(net.l1(in[0])))};
    };
    const Variable loss =
        F::mean_squared_error(net.l3(net.block(block, {x}).front()), Tensor::zeros({5, 1}));
    Parameter* const left_out = net.parameters()[3].parameter;
    run_backward(loss, {.seed = Tensor::full({}, 1),
                        .leaves_out = [&](const Parameter& p) { return &p == left_out; }});
    Values values;
    keep(values, "x", x.grad());
    for (const auto& [path, parameter] : net.parameters())
      if (!parameter->is_frozen() && parameter->has_grad()) keep(values, path, parameter->grad());
    return values;
  };
  const Values expected = gradients(false);
  EXPECT_EQ(expected.size(), 5U);  // x, l1/b, l2/W, l3/W and l3/b
  EXPECT_EQ(gradients(true), expected);
}

// Communication can start while the block is still computed.
TEST(Recompute, SaysWhenGradientsAreFinal) {
  Net net;
  const auto block = [&net](const std::vector<Variable>& in) {
    return std::vector{net.l2(F::relu(net.l1(in[0])))};
  };
  const Variable loss = F::mean_squared_error(
      net.l3(recompute(block, {Variable(drawn({5, 6}, 1))}).front()), Tensor::zeros({5, 1}));
  std::vector<std::string> order;
  int between = 0;
  loss.backward(
      1,
      [&](Parameter& parameter) {
        for (const auto& [path, each] : net.parameters())
          if (each == &parameter) order.push_back(path);
      },
      [&] { ++between; });
  EXPECT_EQ(order, (std::vector<std::string>{"l3/b", "l3/W", "l2/b", "l2/W", "l1/b", "l1/W"}));
  EXPECT_GE(between, 6);  // also after the functions in the block
}

TEST(Recompute, IsACallWithoutAGraph) {
  int calls = 0;
  const auto block = [&calls](const Variable& x) {
    ++calls;
    EXPECT_FALSE(is_recomputing());
    return x * x;
  };
  const NoGrad no_grad;
  EXPECT_EQ(recompute(block, Variable(Tensor::full({1}, 3), true)).value().data<float>()[0], 9);
  EXPECT_EQ(calls, 1);
}

TEST(Recompute, RefusesResultsThatABlockCaptured) {
  Net net;
  const Variable h = net.l1(Variable(drawn({5, 6}, 1)));
  EXPECT_THAT(error_of([&] { recompute([&](const Variable& x) { return x * h; }, h); }),
              HasSubstr("neither a parameter nor one of the block's inputs"));
}

TEST(Recompute, RefusesMessages) {
  Net net;
  const Variable h = net.l1(Variable(drawn({5, 6}, 1)));
  EXPECT_THAT(error_of([&] {
                recompute(
                    [](const Variable& x) {
                      refuse_recomputing("allreduce");
                      return x * x;
                    },
                    h);
              }),
              HasSubstr("a block that is recomputed calls allreduce"));
  refuse_recomputing("allreduce");  // outside of a block
}

// An error in the backward pass leaves nothing behind.
TEST(Recompute, CanFailAndGoOn) {
  Net net;
  bool fails = false;
  const auto block = [&](const Variable& x) {
    if (fails && is_recomputing()) fail(ErrorKind::data, "the block fails");
    return F::relu(net.l2(x));
  };
  const auto loss = [&] {
    return F::mean_squared_error(net.l3(recompute(block, net.l1(Variable(drawn({5, 6}, 1))))),
                                 Tensor::zeros({5, 1}));
  };
  net.clear_grads();
  loss().backward();
  Values expected;
  for (const auto& [path, parameter] : net.parameters())
    if (parameter->has_grad()) keep(expected, path, parameter->grad());
  fails = true;
  EXPECT_THAT(error_of([&] { loss().backward(); }), HasSubstr("the block fails"));
  EXPECT_FALSE(is_recomputing());
  fails = false;
  net.clear_grads();
  loss().backward();
  Values found;
  for (const auto& [path, parameter] : net.parameters())
    if (parameter->has_grad()) keep(found, path, parameter->grad());
  EXPECT_EQ(found, expected);
}

// Two losses of one graph, as in a JointUpdater: gradients of the first pass are not used again.
TEST(Recompute, CanBePassedTwice) {
  const auto gradients = [](bool recomputes) {
    Net net;
    net.recomputes = recomputes;
    const auto block = [&net](const std::vector<Variable>& in) {
      const Variable h = net.l1(in[0]);
      return std::vector{F::relu(net.l2(h)), h};
    };
    const std::vector<Variable> results = net.block(block, {Variable(drawn({5, 6}, 1))});
    const Tensor zeros = Tensor::zeros({5, 1});
    const Variable first = F::mean_squared_error(net.l3(results[0] * results[1]), zeros),
                   second = F::mean_squared_error(net.l3(results[0]), zeros);
    std::vector<Values> passes;
    const auto pass = [&](const Variable& loss, const std::string& layer, bool keeps) {
      net.clear_grads();
      const auto leaves_out = [&](const Parameter& parameter) {
        for (const auto& [path, each] : net.parameters())
          if (each == &parameter) return !path.starts_with(layer);
        return true;
      };
      run_backward(loss,
                   {.seed = Tensor::full({}, 1), .leaves_out = leaves_out, .keeps_graph = keeps});
      Values values;
      for (const auto& [path, parameter] : net.parameters())
        if (parameter->has_grad()) keep(values, path, parameter->grad());
      passes.push_back(values);
    };
    pass(first, "l1", true);
    pass(second, "l2", false);
    return passes;
  };
  const auto expected = gradients(false);
  EXPECT_EQ(expected[0].size(), 2U);
  EXPECT_EQ(expected[1].size(), 2U);
  EXPECT_EQ(gradients(true), expected);
}

// A result without a use, and a block that passes its input on.
TEST(Recompute, LeavesOutWhatTheLossDoesNotUse) {
  const auto gradients = [](bool recomputes) {
    Net net;
    net.recomputes = recomputes;
    const auto block = [&net](const std::vector<Variable>& in) {
      return std::vector{in[0], net.l2(in[0])};
    };
    const Variable h = net.l1(Variable(drawn({5, 6}, 1)));
    const Variable loss =
        F::mean_squared_error(net.l3(net.block(block, {h}).front()), Tensor::zeros({5, 1}));
    loss.backward();
    Values values;
    for (const auto& [path, parameter] : net.parameters()) {
      parameter->fill_missing_grad();
      keep(values, path, parameter->grad());
    }
    return values;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Recompute, MayReturnAParameter) {
  const auto gradients = [](bool recomputes) {
    Net net;
    net.recomputes = recomputes;
    const auto parameters = net.parameters();
    const auto block = [&](const std::vector<Variable>& in) {
      return std::vector<Variable>{in[0] * in[0], *parameters[5].parameter};
    };
    const Variable h = net.l3(net.l1(Variable(drawn({5, 6}, 1))));
    const std::vector<Variable> results = net.block(block, {h});
    F::mean_squared_error(results[0] + F::broadcast_to(results[1], {5, 1}), Tensor::zeros({5, 1}))
        .backward();
    Values values;
    for (const auto& [path, parameter] : parameters)
      if (parameter->has_grad()) keep(values, path, parameter->grad());
    return values;
  };
  const Values expected = gradients(false);
  EXPECT_TRUE(expected.contains("l3/b"));
  EXPECT_EQ(gradients(true).size(), expected.size());
  for (const auto& [path, values] : gradients(true))
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected.at(path)[i], 1e-4) << path;
}

// A parameter of two blocks is final after the second one that is computed again.
TEST(Recompute, SharesParametersBetweenBlocks) {
  Net net;
  const auto block = [&net](const Variable& x) { return F::relu(net.l2(x)); };
  const Variable h = recompute(block, recompute(block, net.l1(Variable(drawn({5, 6}, 1)))));
  std::map<const Parameter*, int> ready;
  F::mean_squared_error(net.l3(h), Tensor::zeros({5, 1})).backward(1, [&](Parameter& parameter) {
    ++ready[&parameter];
  });
  EXPECT_EQ(ready.size(), 6U);
  for (const auto& [parameter, times] : ready) EXPECT_EQ(times, 1);
}

TEST(Recompute, RefusesCapturedResultsThatItReturns) {
  Net net;
  const Variable h = net.l1(Variable(drawn({5, 6}, 1)));
  EXPECT_THAT(error_of([&] { recompute([&](const Variable&) { return h; }, h); }),
              HasSubstr("to its results that is neither"));
}

// --- models and plans ---

struct Trial {
  std::unique_ptr<Module> model;
  std::function<Variable()> loss;
};

Variable image_loss(Layer& net, std::int64_t side) {
  const Tensor labels = Tensor::zeros({4}, DType::int32);
  labels.data<std::int32_t>()[2] = 3;
  return F::softmax_cross_entropy(net(Variable(drawn({4, 3, side, side}, 9))), labels);
}

Trial images(std::unique_ptr<Layer> net, std::int64_t side) {
  Layer& layer = *net;
  return {std::move(net), [&layer, side] { return image_loss(layer, side); }};
}

Tensor words(const Shape& shape, std::int32_t count) {
  Tensor made = Tensor::empty(shape, DType::int32);
  std::int32_t next = 1;
  for (std::int32_t& word : made.span<std::int32_t>()) word = next++ % count;
  return made;
}

Trial transformer() {
  auto model = std::make_unique<Gpt>(
      GptSettings{.symbols = 11, .layers = 3, .heads = 2, .width = 8, .context = 6});
  Gpt& gpt = *model;
  return {std::move(model), [&gpt] {
            return F::softmax_cross_entropy(gpt(Variable(words({2, 6}, 11))), words({12}, 11));
          }};
}

Trial translation() {
  auto model = std::make_unique<Seq2seq>(Seq2seqSizes{
      .layers = 2, .source_words = 9, .target_words = 11, .units = 8, .dropout = 0.2F});
  Seq2seq& net = *model;
  return {std::move(model), [&net] {
            const Tensor lengths = Tensor::full({3}, 5, DType::int64);
            lengths.data<std::int64_t>()[1] = 2;
            const auto states = net.encoder().encode(words({3, 5}, 9), lengths);
            return F::softmax_cross_entropy(net.decoder().score(states, words({3, 5}, 11), lengths),
                                            words({15}, 11));
          }};
}

const std::map<std::string, std::function<Trial()>> trials = {
    {"cnn10", [] { return images(cnn10(10, 3), 16); }},
    {"small_resnet", [] { return images(small_resnet(8, 10, 3), 16); }},
    {"resnet50", [] { return images(resnet50(10, 3, ResNetStem::cifar), 16); }},
    {"wide_resnet", [] { return images(wide_resnet(10, 2, 10, 3), 16); }},
    {"gpt", transformer},
    {"seq2seq", translation}};

class Models : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    before_ = conv_algorithm();
    set_conv_algorithm(ConvAlgorithm::by_shape);  // chosen alike in all passes
  }
  void TearDown() override { set_conv_algorithm(before_); }

  static Values with_plan(RecomputePlan* plan) {
    Trial trial = trials.at(GetParam())();
    trial.model->initialize(4);
    return values_after(*trial.model, [&] {
      if (plan == nullptr) return trial.loss();
      const RecomputeScope scope(*plan);
      return trial.loss();
    });
  }

 private:
  ConvAlgorithm before_{};
};

TEST_P(Models, HaveTheSameBits) {
  const Values expected = with_plan(nullptr);
  RecomputePlan none(RecomputePlan::Mode::none), all(RecomputePlan::Mode::all),
      measured(RecomputePlan::Mode::measured);
  EXPECT_EQ(with_plan(&none), expected);
  EXPECT_EQ(none.recomputed(), 0U);
  EXPECT_EQ(with_plan(&all), expected);
  EXPECT_GE(all.blocks(), 2U);
  EXPECT_EQ(all.recomputed(), all.blocks());
  EXPECT_EQ(none.blocks(), all.blocks());
  EXPECT_EQ(with_plan(&measured), expected);
  const auto costs = measured.costs();
  ASSERT_EQ(costs.size(), all.blocks());
  std::size_t largest = 0;
  for (const auto& cost : costs) {
    ASSERT_TRUE(cost);
    EXPECT_GT(cost->bytes, 0U);
    EXPECT_GT(cost->seconds, 0);
    largest = std::max(largest, cost->bytes);
  }
  // Half of the blocks or so.
  EXPECT_GT(measured.keep_within(largest), 0U);
  EXPECT_LT(measured.recomputed(), measured.blocks());
  EXPECT_EQ(with_plan(&measured), expected);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Models,
                         ::testing::Values("cnn10", "small_resnet", "resnet50", "wide_resnet",
                                           "gpt", "seq2seq"));

TEST(RecomputePlan, KeepsWhatFitsAndNoFurtherBlockWould) {
  for (std::size_t kilobytes = 0; kilobytes < 400; kilobytes += 23) {
    Trial trial = transformer();
    trial.model->initialize(4);
    RecomputePlan plan(RecomputePlan::Mode::measured);
    const Variable loss = [&] {
      const RecomputeScope scope(plan);
      return trial.loss();
    }();
    loss.backward();
    const auto costs = plan.costs();
    const std::size_t room = kilobytes * 100;
    const std::size_t kept = plan.keep_within(room);
    EXPECT_LE(kept, room);
    std::size_t sum = 0;
    for (std::size_t block = 0; block < costs.size(); ++block) {
      if (plan.recomputes(block))
        EXPECT_GT(kept + costs[block]->bytes, room);
      else
        sum += costs[block]->bytes;
    }
    EXPECT_EQ(sum, kept);
  }
}

// As when memory runs out in the backward pass: blocks without a cost are not kept.
TEST(RecomputePlan, RecomputesBlocksThatWereNotMeasured) {
  Net net;
  RecomputePlan plan(RecomputePlan::Mode::measured);
  bool fails = true;
  const auto block = [&](const Variable& x) {
    if (fails && is_recomputing()) fail(ErrorKind::unavailable, "no memory");
    return F::relu(net.l2(x));
  };
  const auto last = [&](const Variable& x) { return F::relu(net.l2(x)); };
  const auto loss = [&] {
    const RecomputeScope scope(plan);
    const Variable h = may_recompute(block, net.l1(Variable(drawn({5, 6}, 1))));
    return F::mean_squared_error(net.l3(may_recompute(last, h)), Tensor::zeros({5, 1}));
  };
  EXPECT_THAT(error_of([&] { loss().backward(); }), HasSubstr("no memory"));
  EXPECT_EQ(plan.keep_within(0), 0U);
  EXPECT_TRUE(plan.recomputes(0));
  EXPECT_TRUE(plan.recomputes(1));
}

// Blocks in blocks are parts of them, whether they are kept or not.
TEST(RecomputePlan, NumbersOuterBlocks) {
  for (const auto mode : {RecomputePlan::Mode::none, RecomputePlan::Mode::all}) {
    Net net;
    RecomputePlan plan(mode);
    const auto inner = [&](const Variable& x) { return F::relu(net.l2(x)); };
    const auto outer = [&](const Variable& x) { return may_recompute(inner, F::relu(x)); };
    {
      const RecomputeScope scope(plan);
      const Variable h = may_recompute(outer, net.l1(Variable(drawn({5, 6}, 1))));
      (void)may_recompute(outer, h);
    }
    EXPECT_EQ(plan.blocks(), 2U);
  }
}

// The same bytes of each block, whether it is kept or recomputed.
TEST(RecomputePlan, TracesBlocks) {
  std::vector<std::int64_t> bytes;
  for (const auto mode : {RecomputePlan::Mode::none, RecomputePlan::Mode::all}) {
    Trial trial = transformer();
    trial.model->initialize(4);
    RecomputePlan plan(mode);
    start_trace();
    const Variable loss = [&] {
      const RecomputeScope scope(plan);
      return trial.loss();
    }();
    loss.backward();
    std::vector<TraceEvent> events = end_trace();
    ASSERT_EQ(events.size(), plan.blocks());
    std::ranges::sort(events, {}, &TraceEvent::number);
    for (std::size_t block = 0; block < events.size(); ++block) {
      const TraceEvent& event = events[block];
      EXPECT_EQ(event.name,
                std::string(mode == RecomputePlan::Mode::none ? "block" : "block again"));
      EXPECT_EQ(event.row, TraceRow::blocks);
      EXPECT_EQ(event.number, static_cast<std::int64_t>(block));
      EXPECT_GT(event.end, event.begin);
      if (mode == RecomputePlan::Mode::none) bytes.push_back(event.bytes);
      EXPECT_GT(event.bytes, 0);
      EXPECT_EQ(event.bytes, bytes[block]);
    }
  }
}

// What a forward pass keeps: counted by the backend.
TEST(RecomputePlan, TakesLessMemory) {
  const auto held = [](RecomputePlan::Mode mode) {
    const auto net = wide_resnet(16, 4, 10, 3);
    net->initialize(4);
    RecomputePlan plan(mode);
    const std::size_t before = backend(Device::cpu()).memory(Device::cpu()).in_use;
    const RecomputeScope scope(plan);
    const Variable loss = image_loss(*net, 16);
    return backend(Device::cpu()).memory(Device::cpu()).in_use - before;
  };
  EXPECT_LT(static_cast<double>(held(RecomputePlan::Mode::all)),
            0.45 * static_cast<double>(held(RecomputePlan::Mode::none)));
}

}  // namespace
}  // namespace tasuki
