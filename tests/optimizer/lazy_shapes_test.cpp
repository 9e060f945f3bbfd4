// Layers that get their shape in a forward pass, on several ranks.
#include <gtest/gtest.h>

#include <cstring>

#include "communicator/text_bytes.hpp"
#include "communicators.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"
#include "saving/model_file.hpp"
#include "tensor/recorder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::values_of;

constexpr std::int64_t inputs = 6, units = 5, classes = 3;

// Layers a and b, and c, which is lazy where it is asked for.
struct Net : Module {
  Linear a, b, c;
  explicit Net(bool lazy, std::uint64_t seed)
      : a(inputs, units),
        b(units, units),
        c(lazy ? std::nullopt : std::optional<std::int64_t>(units), classes) {
    add("a", a);
    add("b", b);
    add("c", c);
    initialize(seed);
  }
  using Module::add;
};

// How often a recording of the optimizer's work would have been dropped: here, when arenas were
// made.
std::uint64_t revisions_of(const Optimizer& optimizer) {
  struct Reader final : Recorder {
    Device device() const override { return Device::cpu(); }
    bool is_recording() const override { return true; }
    Tensor place(const std::shared_ptr<detail::LateState>& /*values*/, std::int64_t) override {
      return {};
    }
    void use(const std::shared_ptr<const detail::RevisionState>& revision) override {
      number = revision->number;
    }
    void refuse(std::string_view /*reason*/) override {}
    std::uint64_t number = 0;
  } reader;
  const RecorderScope scope(reader);
  optimizer.revision().use();
  return reader.number;
}

class LazyShapes : public testing::WithCommunicator {
 protected:
  std::unique_ptr<Optimizer> optimizer_for(Module& model) {
    auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *communicator_);
    optimizer->set_exchange({.mode = ExchangeMode::overlapped, .range_bytes = 64});
    optimizer->setup(model);
    return optimizer;
  }

  // One example on each rank but `without`.
  void update(Optimizer& optimizer, const std::function<Variable(const Variable&)>& forward,
              int without = -1, std::int64_t width = inputs) {
    Tensor x = Tensor::empty({1, width});
    for (std::int64_t i = 0; i < width; ++i)
      x.data<float>()[i] = static_cast<float>((i + 2 * rank()) % 5) - 1.5f;
    const Tensor t = Tensor::full({1}, rank() % classes, DType::int32);
    const bool has_example = rank() != without;
    testing::update_of(
        optimizer, [&] { return F::softmax_cross_entropy(forward(Variable(x)), t); },
        has_example ? 1 : 0, size() - (without >= 0 ? 1 : 0));
  }
  static Variable run(Net& net, const Variable& x) { return net.c(net.b(net.a(x))); }

  static std::vector<float> all_values(const Module& model) {
    std::vector<float> all;
    for (const auto& [path, parameter] : model.parameters()) {
      const std::vector<float> values = values_of(parameter->value());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  void expect_equal_on_all_ranks(const Module& model) const {
    const std::vector<float> own = all_values(model);
    for (const Bytes& other : allgather_bytes(*communicator_, std::as_bytes(std::span(own)))) {
      ASSERT_EQ(other.size(), own.size() * sizeof(float));
      EXPECT_EQ(std::memcmp(other.data(), own.data(), other.size()), 0);
    }
  }
  // The same text on all ranks, which is that of an error of kind disagreement.
  std::string disagreement(const std::function<void()>& work) const {
    std::string message;
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disagreement);
      message = error.what();
    }
    for (const Bytes& other : allgather_bytes(*communicator_, text_to_bytes(message)))
      EXPECT_EQ(bytes_to_text(other), message);
    return message;
  }
};

// Ranks begin with weights of their own, as rank 0's must count for lazy layers, too.
TEST_P(LazyShapes, TrainLikeExplicitShapes) {
  const auto seed = static_cast<std::uint64_t>(rank()) + 1;
  Net lazy(true, seed), told(false, seed);
  const auto one = optimizer_for(lazy), other = optimizer_for(told);
  // Broadcast without the parameter that has no shape.
  EXPECT_EQ(lazy.unshaped_parameters().size(), 1u);
  EXPECT_EQ(one->t(), 0);
  EXPECT_EQ(values_of(lazy.a.parameters()[0].parameter->value()),
            values_of(told.a.parameters()[0].parameter->value()));
  for (int t = 1; t <= 3; ++t) {
    update(*one, [&](const Variable& x) { return run(lazy, x); });
    update(*other, [&](const Variable& x) { return run(told, x); });
    EXPECT_EQ(one->t(), t);
    EXPECT_EQ(all_values(lazy), all_values(told));
    expect_equal_on_all_ranks(lazy);
  }
  EXPECT_EQ(revisions_of(*one), 2u);
}

TEST_P(LazyShapes, ReachRanksWithoutExamples) {
  if (size() == 1) GTEST_SKIP() << "one rank has all examples";
  for (const int without : {0, size() - 1}) {
    const auto seed = static_cast<std::uint64_t>(rank()) + 1;
    Net lazy(true, seed), told(false, seed);
    const auto one = optimizer_for(lazy), other = optimizer_for(told);
    for (int t = 0; t < 2; ++t) {
      update(
          *one, [&](const Variable& x) { return run(lazy, x); }, without);
      update(
          *other, [&](const Variable& x) { return run(told, x); }, without);
      EXPECT_EQ(all_values(lazy), all_values(told));
      expect_equal_on_all_ranks(lazy);
    }
  }
}

TEST_P(LazyShapes, AreBroadcastForLayersAddedLater) {
  Net net(false, 1);
  const auto optimizer = optimizer_for(net);
  update(*optimizer, [&](const Variable& x) { return run(net, x); });
  Linear more(std::nullopt, classes);
  more.initialize(static_cast<std::uint64_t>(rank()));
  net.add("more", more);
  Linear rank_zeros(classes, classes);
  rank_zeros.initialize(0);
  bool seen_first_values = false;
  update(*optimizer, [&](const Variable& x) {
    Variable y = more(run(net, x));
    seen_first_values = values_of(more.parameters()[0].parameter->value()) ==
                        values_of(rank_zeros.parameters()[0].parameter->value());
    EXPECT_EQ(optimizer->t(), 1);
    return y;
  });
  EXPECT_TRUE(seen_first_values);
  EXPECT_EQ(optimizer->t(), 2);
  expect_equal_on_all_ranks(net);
}

// A validation on one rank, say.
TEST_P(LazyShapes, AreSharedWhenFoundOutsideUpdates) {
  Net lazy(true, 1), told(false, 1);
  const auto one = optimizer_for(lazy), other = optimizer_for(told);
  if (rank() == size() - 1) run(lazy, Variable(Tensor::zeros({2, inputs})));
  for (int t = 0; t < 2; ++t) {
    update(*one, [&](const Variable& x) { return run(lazy, x); });
    update(*other, [&](const Variable& x) { return run(told, x); });
    EXPECT_EQ(all_values(lazy), all_values(told));
  }
}

// A file that rank 0 reads before setup() gives shapes and weights to all.
TEST_P(LazyShapes, AreTakenFromRankZerosFile) {
  const testing::TemporaryFolder folder(communicator_.get());
  Net told(false, 1), lazy(true, static_cast<std::uint64_t>(rank()) + 2);
  if (rank() == 0) {
    save_npz(folder / "model", told);
    load_npz(folder / "model", lazy);
  }
  for (const bool is_set_up_before : {false, true}) {
    Net again(true, static_cast<std::uint64_t>(rank()) + 2);
    if (rank() == 0) load_npz(folder / "model", again);
    auto optimizer = create_optimizer("momentum_sgd");
    if (is_set_up_before) optimizer->setup(again);
    optimizer = create_multi_node_optimizer(std::move(optimizer), *communicator_);
    if (!is_set_up_before) optimizer->setup(again);
    EXPECT_TRUE(again.unshaped_parameters().empty());
    EXPECT_EQ(all_values(again), all_values(told));
    EXPECT_EQ(revisions_of(*optimizer), is_set_up_before ? 2u : 1u);
  }
  const auto one = optimizer_for(lazy), other = optimizer_for(told);
  for (int t = 1; t <= 2; ++t) {
    update(*one, [&](const Variable& x) { return run(lazy, x); });
    update(*other, [&](const Variable& x) { return run(told, x); });
    EXPECT_EQ(all_values(lazy), all_values(told));
  }
}

// Rank 0's weights are everybody's: it alone needs some.
TEST_P(LazyShapes, NeedValuesOnlyOnRankZero) {
  for (const bool rank_zero_has : {true, false}) {
    Linear layer(inputs, classes);
    if ((rank() == 0) == rank_zero_has) layer.initialize(1);
    std::string message;
    try {
      optimizer_for(layer);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::internal);
      message = error.what();
    }
    EXPECT_EQ(message.find("parameter W (3x6) has no values") == std::string::npos, rank_zero_has)
        << message;
  }
}

TEST_P(LazyShapes, AllowUnusedLayers) {
  Net lazy(true, 1);
  const auto optimizer = optimizer_for(lazy);
  const std::vector<float> before = all_values(lazy);
  for (int t = 0; t < 2; ++t) update(*optimizer, [&](const Variable& x) { return lazy.a(x); });
  EXPECT_EQ(optimizer->t(), 2);
  EXPECT_EQ(lazy.unshaped_parameters().size(), 1u);
  EXPECT_NE(all_values(lazy), before);
  expect_equal_on_all_ranks(lazy);
}

TEST_P(LazyShapes, RejectDifferentShapesOnAllRanks) {
  Sequential net;
  net.append("l", std::make_unique<Linear>(std::nullopt, classes));
  net.initialize(1);
  const auto optimizer = optimizer_for(net);
  const std::string message = disagreement([&] {
    update(
        *optimizer, [&](const Variable& x) { return net(x); }, -1, rank() == size() - 1 ? 4 : 7);
  });
  const std::string expected = "has \"parameter l/W 3x4\" where rank 0 has \"parameter l/W 3x7\"";
  EXPECT_EQ(message.find(expected) == std::string::npos, size() == 1) << message;
}

TEST_P(LazyShapes, RejectLazyLayerOnOnlyOneRank) {
  Net net(false, 1);
  const auto optimizer = optimizer_for(net);
  Linear more(std::nullopt, classes);
  more.initialize(1);
  const bool differs = rank() == size() - 1;
  if (differs) net.add("more", more);
  const std::string message = disagreement([&] {
    update(*optimizer,
           [&](const Variable& x) { return differs ? more(run(net, x)) : run(net, x); });
  });
  EXPECT_EQ(message.find("parameter more/b 3") == std::string::npos, size() == 1) << message;
}

INSTANTIATE_TEST_SUITE_P(Communicators, LazyShapes,
                         ::testing::ValuesIn(testing::summing_communicators()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
