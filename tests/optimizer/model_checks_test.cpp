// Models that would train nothing, or from zeros.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::coded_error_of;

void expect_contains(const std::string& message, const std::string& text) {
  EXPECT_NE(message.find(text), std::string::npos) << text << " in: " << message;
}

constexpr std::int64_t inputs = 6, units = 5, classes = 3;

// Layers a and b, of which b may be forgotten.
struct Net : Module {
  Linear a{inputs, units};
  std::unique_ptr<Linear> held;  // not a member for ModuleMemory
  Linear& b;
  explicit Net(bool registers_all, bool lazy = false)
      : held(std::make_unique<Linear>(lazy ? std::nullopt : std::optional<std::int64_t>(units),
                                      classes)),
        b(*held) {
    add("a", a);
    if (registers_all) add("b", b);
  }
  using Module::add;

  Variable loss() {
    const Variable x(Tensor::full({2, inputs}, 1));
    return F::softmax_cross_entropy(b(a(x)), Tensor::full({2}, 1, DType::int32));
  }
};

void update(Optimizer& optimizer, Net& net) {
  optimizer.update([&] { return net.loss(); }, 2);
}

std::string error_of_setup(Module& model) {
  return coded_error_of([&] { create_optimizer("sgd")->setup(model); });
}

TEST(ModelChecks, RejectParametersWithoutValues) {
  Net net(true);
  expect_contains(error_of_setup(net), "70: parameter a/W (5x6) has no values yet: call");
  net.a.initialize(1);
  expect_contains(error_of_setup(net), "70: parameter b/W (3x5) has no values yet: call");
  // Values that are written by hand.
  net.b.parameters()[0].parameter->value().fill(0.5);
  expect_contains(error_of_setup(net), "70: parameter b/b (3) has no values yet: call");
  net.b.parameters()[1].parameter->value_changed();
  EXPECT_EQ(error_of_setup(net), "");
}

TEST(ModelChecks, AcceptParametersInitializedToZero) {
  testing::Vectors zeros({4});
  EXPECT_EQ(error_of_setup(zeros), "");
}

TEST(ModelChecks, RejectModelsWithoutParameters) {
  Module model;
  model.initialize(1);
  expect_contains(error_of_setup(model), "70: the optimizer's model has no parameters: register");
}

// A model whose layer `inner.forgotten` is a member.
struct Forgetful : Module {
  struct Inner : Module {
    Linear known{inputs, units}, forgotten;
    explicit Inner(bool lazy)
        : forgotten(lazy ? std::nullopt : std::optional<std::int64_t>(units), classes) {
      add("known", known);
    }
    using Module::add;
  } inner;
  explicit Forgetful(bool lazy = false) : inner(lazy) { add("inner", inner); }
};

TEST(ModelChecks, RejectUnregisteredMembers) {
  for (const bool lazy : {false, true}) {
    const std::string expected = fmt::format(
        "70: a parameter W (3x{}) of a layer Linear is in a member of the model that is "
        "not registered: add(",
        lazy ? "?" : "5");
    Forgetful here(lazy);  // of a type that setup() knows
    here.initialize(1);
    expect_contains(coded_error_of([&] { create_optimizer("sgd")->setup(here); }), expected);
    here.inner.add("forgotten", here.inner.forgotten);
    here.initialize(1);
    EXPECT_EQ(coded_error_of([&] { create_optimizer("sgd")->setup(here); }), "");

    const std::unique_ptr<Module> made = std::make_unique<Forgetful>(lazy);
    made->initialize(1);
    expect_contains(error_of_setup(*made), expected);

    struct Over : Forgetful {  // more than one base, at another address than the module
      using Forgetful::Forgetful;
    };
    struct Named {
      virtual ~Named() = default;
      std::string name;
    };
    struct Both : Named, Over {
      using Over::Over;
    };
    const auto both = std::make_unique<Both>();
    both->initialize(1);
    expect_contains(error_of_setup(*both), "not registered: add(");
  }
}

// Networks that stand beside each other are not each other's members.
TEST(ModelChecks, AllowNeighboursAndLayersHeldByPointer) {
  struct {
    Linear first{inputs, units};
    Linear second{units, classes};
  } pair;
  pair.first.initialize(1);
  EXPECT_EQ(coded_error_of([&] { create_optimizer("sgd")->setup(pair.first); }), "");
  Net net(false);
  net.initialize(1);
  EXPECT_EQ(coded_error_of([&] { create_optimizer("sgd")->setup(net); }), "");
  // A member whose values were given is left to the check of the first update.
  Forgetful teacher;
  teacher.initialize(1);
  teacher.inner.forgotten.initialize(2);
  EXPECT_EQ(coded_error_of([&] { create_optimizer("sgd")->setup(teacher); }), "");
}

TEST(ModelChecks, FindUnregisteredLayersInTheFirstUpdate) {
  for (const bool lazy : {false, true}) {
    Net net(false, lazy);
    net.initialize(1);
    const auto sgd = create_optimizer("sgd");
    sgd->setup(net);
    const std::vector<float> before = testing::values_of(net.a.parameters()[0].parameter->value());
    expect_contains(coded_error_of([&] { update(*sgd, net); }),
                    "70: the loss depends on a parameter W (3x5) of a layer Linear that the model "
                    "does not have");
    EXPECT_EQ(sgd->t(), 0);
    EXPECT_EQ(testing::values_of(net.a.parameters()[0].parameter->value()), before);
    net.add("b", net.b);
    net.initialize(1);
    EXPECT_EQ(coded_error_of([&] { update(*sgd, net); }), "");
  }
}

TEST(ModelChecks, RejectLaterLayersWithoutValues) {
  for (const bool lazy : {false, true}) {
    Net net(false, lazy);
    net.initialize(1);
    const auto sgd = create_optimizer("sgd");
    sgd->setup(net);
    net.add("b", net.b);
    expect_contains(coded_error_of([&] { update(*sgd, net); }), "70: parameter b/");
    net.b.initialize(1);
    EXPECT_EQ(coded_error_of([&] { update(*sgd, net); }), "");
  }
}

// Layers that have values and that nothing updates may be what somebody wants: a warning. Those of
// another optimizer's model are nothing special (two networks that train against each other).
TEST(ModelChecks, WarnOnceAboutLayersThatAreNotUpdated) {
  for (const bool has_optimizer : {false, true}) {
    Net net(false);
    net.initialize(1);
    net.b.initialize(2);
    const auto sgd = create_optimizer("sgd"), other = create_optimizer("sgd");
    sgd->setup(net);
    if (has_optimizer) other->setup(net.b);
    ::testing::internal::CaptureStderr();
    for (int step = 0; step < 2; ++step) update(*sgd, net);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const std::string expected =
        "the loss depends on a parameter W (3x5) of a layer Linear that no optimizer updates";
    EXPECT_EQ(said.find(expected) != std::string::npos, !has_optimizer) << said;
    EXPECT_EQ(said.find(expected), said.rfind(expected)) << said;
  }
}

}  // namespace
}  // namespace tasuki
