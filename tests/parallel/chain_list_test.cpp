// Models whose components are on several ranks compute what one process would, and do not hang.
#include "parallel/multi_node_chain_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/loss.hpp"
#include "parallel/functions/messages.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using Values = MultiNodeChainList::Values;

constexpr std::int64_t items = 40, width = 64;  // longer than what MPI sends without a receiver
constexpr int passes = 100;

Tensor random_values(std::uint64_t seed) {
  const Tensor made = Tensor::empty({items, width});
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

// A layer with the weights of its name.
std::unique_ptr<Linear> layer(const std::string& name) {
  auto made = std::make_unique<Linear>(width, width);
  class Named : public Module {
   public:
    Named(const std::string& name, Module& child) { add(name, child); }
  };
  Named(name, *made).initialize(1);
  return made;
}

Variable sum_of(const Values& values) {
  Variable sum = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) sum = F::add(sum, values[i]);
  return sum;
}

// The sum of what it takes, through a layer.
MultiNodeChainList& add_sum(MultiNodeChainList& model, const std::string& name,
                            const LinkRanks& ranks) {
  auto own = layer(name);
  Linear& linear = *own;
  return model.add_link(
      name, std::move(own),
      [&linear](const Values& values) -> Values { return {linear(sum_of(values))}; }, ranks);
}

Variable loss_of(const Variable& y) {
  return F::mean_squared_error(y, random_values(77));
}

class ChainLists : public ::testing::Test {
 protected:
  // Trains this rank's part of a model: from what it returns, or from its delegate variable. The
  // last results are kept.
  void pass(MultiNodeChainList& model, const Values& inputs, bool has_results) {
    for (int i = 0; i < passes; ++i) {
      model.clear_grads();
      results_ = model.forward(inputs);
      (has_results ? loss_of(sum_of(results_)) : results_.at(0)).backward();
    }
  }
  // The layers of the whole model in one process, with gradients after `loss` was computed.
  void expect_gradients(MultiNodeChainList& model, std::vector<Linear*> whole,
                        const std::vector<std::string>& names) {
    for (const auto& [path, parameter] : model.parameters()) {
      const auto name = path.substr(0, path.find('/'));
      const auto at = std::ranges::find(names, name) - names.begin();
      ASSERT_LT(at, std::ssize(names)) << path;
      const auto expected = whole[static_cast<std::size_t>(at)]->parameters();
      const Tensor& gradient = expected[path.ends_with("/W") ? 0 : 1].parameter->grad();
      const Tensor found = parameter->grad();
      for (std::int64_t i = 0; i < found.count(); ++i)
        ASSERT_NEAR(found.data<float>()[i], gradient.data<float>()[i], 1e-5) << path;
    }
  }
  bool has(int ranks) const { return size_ >= ranks; }

  const std::unique_ptr<Communicator> comm_ = create_communicator("naive");
  const int rank_ = comm_->rank(), size_ = comm_->size();
  const int next_ = (rank_ + 1) % size_, previous_ = (rank_ + size_ - 1) % size_;
  Values results_;
};

#define TASUKI_NEEDS_RANKS(n) \
  if (!has(n)) GTEST_SKIP() << "needs " #n " ranks"

// 0 -> 1 -> ... -> 0
TEST_F(ChainLists, Cycle) {
  MultiNodeChainList model(*comm_);
  std::vector<std::string> names = {"first"};
  for (int rank = 1; rank < size_; ++rank) names.push_back(fmt::format("of{}", rank));
  names.push_back("last");
  if (rank_ == 0) {
    model.add_link("first", layer("first"), {.out = {next_}});
    model.add_link("last", layer("last"), {.in = {previous_}});
    pass(model, {Variable(random_values(1))}, true);
  } else {
    model.add_link(names[static_cast<std::size_t>(rank_)],
                   layer(names[static_cast<std::size_t>(rank_)]),
                   {.in = {previous_}, .out = {next_}});
    pass(model, {}, false);
  }
  std::vector<std::unique_ptr<Linear>> layers;
  std::vector<Linear*> whole;
  Variable y(random_values(1));
  for (const std::string& name : names) {
    layers.push_back(layer(name));
    whole.push_back(layers.back().get());
    y = (*layers.back())(y);
  }
  loss_of(y).backward();
  expect_gradients(model, whole, names);
}

// Both ranks have inputs and results, each computed by the other's first component.
TEST_F(ChainLists, Crossing) {
  TASUKI_NEEDS_RANKS(2);
  MultiNodeChainList model(*comm_);
  const auto a = layer("a"), b = layer("b"), c = layer("c"), d = layer("d");
  loss_of((*b)((*c)(Variable(random_values(2))))).backward();
  loss_of((*d)((*a)(Variable(random_values(1))))).backward();
  if (rank_ == 0) {
    model.add_link("a", layer("a"), {.out = {1}});
    model.add_link("b", layer("b"), {.in = {1}});
    pass(model, {Variable(random_values(1))}, true);
  } else if (rank_ == 1) {
    model.add_link("d", layer("d"), {.in = {0}});
    model.add_link("c", layer("c"), {.out = {0}});
    pass(model, {Variable(random_values(2))}, true);
  } else {
    EXPECT_TRUE(model.forward(Values()).empty());
  }
  expect_gradients(model, {a.get(), b.get(), c.get(), d.get()}, {"a", "b", "c", "d"});
}

// Rank 0 sends to all others, and takes their results and, in ways that differ, its own.
TEST_F(ChainLists, Branching) {
  TASUKI_NEEDS_RANKS(2);
  std::vector<int> children;
  for (int rank = 1; rank < size_; ++rank) children.push_back(rank);
  const auto with_own = [&](bool first) {
    std::vector<int> ranks = children;
    ranks.insert(first ? ranks.begin() : ranks.end(), 0);
    return ranks;
  };
  for (const std::string kind :
       {"children alone", "own value first", "own value last", "own component"}) {
    SCOPED_TRACE(kind);
    MultiNodeChainList model(*comm_);
    const bool has_own = kind != "children alone", is_first = kind != "own value last";
    const std::string own_name = fmt::format("child{}", rank_);
    if (rank_ == 0) {
      model.add_link("parent", layer("parent"), {.out = has_own ? with_own(is_first) : children});
      if (kind == "own component")
        model.add_link("child0", layer("child0"), {.in = {0}, .out = {0}});
      add_sum(model, "join", {.in = has_own ? with_own(is_first) : children});
      pass(model, {Variable(random_values(1))}, true);
    } else {
      model.add_link(own_name, layer(own_name), {.in = {0}, .out = {0}});
      pass(model, {}, false);
    }
    std::vector<std::unique_ptr<Linear>> layers;
    std::vector<Linear*> whole;
    std::vector<std::string> names = {"parent", "join"};
    for (int rank = 0; rank < size_; ++rank) names.push_back(fmt::format("child{}", rank));
    for (const std::string& name : names) {
      layers.push_back(layer(name));
      whole.push_back(layers.back().get());
    }
    const Variable h = (*whole[0])(Variable(random_values(1)));
    Values joined;
    if (has_own) joined.push_back(kind == "own component" ? (*whole[2])(h) : h);
    for (std::size_t i = 3; i < whole.size(); ++i) joined.push_back((*whole[i])(h));
    loss_of((*whole[1])(sum_of(joined))).backward();
    expect_gradients(model, whole, names);
  }
}

// Neighbours exchange values in both directions; every rank has results.
TEST_F(ChainLists, Twisting) {
  TASUKI_NEEDS_RANKS(2);
  const auto name = [](const char* what, int rank) { return fmt::format("{}{}", what, rank); };
  const auto input = [](int rank) { return Variable(random_values(static_cast<unsigned>(rank))); };
  MultiNodeChainList model(*comm_);
  const auto up = layer(name("up", rank_)), down = layer(name("down", rank_)),
             join = layer(name("join", rank_));
  const auto add = [&](const char* what, const LinkRanks& ranks) {
    add_sum(model, name(what, rank_), ranks);
  };
  if (rank_ == 0) {
    add("up", {.out = {next_}});
    add("join", {.in = {next_}});
  } else if (rank_ < size_ - 1) {
    model.add_link([](const Values& values) { return values; },
                   {.in = {previous_}, .out = {rank_}});
    add("down", {.out = {previous_}});
    add("up", {.out = {next_}});
    add("join", {.in = {rank_, next_}});
  } else {
    add("join", {.in = {previous_}});
    add("down", {.out = {previous_}});
  }
  pass(model, {input(rank_)}, true);

  // All ranks' results come from their neighbours' inputs.
  std::map<std::string, std::unique_ptr<Linear>> layers;
  const auto layer_of = [&](const char* what, int rank) -> Linear& {
    auto& found = layers[name(what, rank)];
    if (!found) found = layer(name(what, rank));
    return *found;
  };
  for (int rank = 0; rank < size_; ++rank) {
    Values from;
    if (rank > 0) from.push_back(layer_of("up", rank - 1)(input(rank - 1)));
    if (rank < size_ - 1) from.push_back(layer_of("down", rank + 1)(input(rank + 1)));
    loss_of(layer_of("join", rank)(sum_of(from))).backward();
  }
  std::vector<Linear*> whole;
  std::vector<std::string> names;
  for (const auto& [each, linear] : layers) {
    names.push_back(each);
    whole.push_back(linear.get());
  }
  expect_gradients(model, whole, names);
}

TEST_F(ChainLists, SendSeveralValuesTogether) {
  TASUKI_NEEDS_RANKS(2);
  MultiNodeChainList model(*comm_);
  if (rank_ == 0) {
    model.add_link("a", layer("a"), {.out = {0}});
    model.add_link(
        [](const Values& values) -> Values {
          return {values[0], values[0], values[0]};
        },
        {.in = {0}, .out = {1}});
    add_sum(model, "b", {.in = {1}});
    pass(model, {Variable(random_values(1))}, true);
  } else if (rank_ == 1) {
    model.add_link(
        [](const Values& values) -> Values {
          EXPECT_EQ(values.size(), 3U);
          return {F::add(values[0], values[1]), values[2]};
        },
        {.in = {0}, .out = {0}});
    pass(model, {}, false);
  } else {
    model.forward(Values());
  }
  const auto a = layer("a"), b = layer("b");
  const Variable h = (*a)(Variable(random_values(1)));
  loss_of((*b)(F::add(F::add(h, h), h))).backward();
  expect_gradients(model, {a.get(), b.get()}, {"a", "b"});
}

// The sender of a value that is not used gets zeros as its gradient.
TEST_F(ChainLists, AllowIgnoredInputs) {
  TASUKI_NEEDS_RANKS(2);
  for (const bool by_last : {false, true}) {
    SCOPED_TRACE(by_last ? "the model's results ignore a value" : "a value on its way is ignored");
    MultiNodeChainList model(*comm_);
    const auto second = layer("second"), third = layer("third");
    Variable y = (*second)(Variable(random_values(2)));
    if (by_last) y = Variable(random_values(3));
    loss_of((*third)(y)).backward();
    if (rank_ == 0) {
      model.add_link("first", layer("first"), {.out = {1}});
      auto own = layer("third");
      Linear& linear = *own;
      model.add_link("third", std::move(own),
                     [&](const Values& values) -> Values {
                       return {linear(by_last ? Variable(random_values(3)) : values.at(0))};
                     },
                     {.in = {1}});
      pass(model, {Variable(random_values(1))}, true);
    } else if (rank_ == 1) {
      auto own = layer("second");
      Linear& linear = *own;
      model.add_link("second", std::move(own),
                     [&](const Values& values) -> Values {
                       return {linear(by_last ? values.at(0) : Variable(random_values(2)))};
                     },
                     {.in = {0}, .out = {0}});
      pass(model, {}, false);
    } else {
      EXPECT_TRUE(model.forward(Values()).empty());
    }
    for (const auto& [path, parameter] : model.parameters()) {
      SCOPED_TRACE(path);
      const bool is_used = path.starts_with("third") || (path.starts_with("second") && !by_last);
      const std::size_t place = path.ends_with("/W") ? 0 : 1;
      const Linear& whole = path.starts_with("third") ? *third : *second;
      for (std::int64_t i = 0; i < parameter->grad().count(); ++i)
        ASSERT_NEAR(parameter->grad().data<float>()[i],
                    is_used ? whole.parameters()[place].parameter->grad().data<float>()[i] : 0,
                    1e-5);
    }
  }
}

// Ranks compare their plans in the first pass, so one rank alone cannot change its own afterwards.
TEST_F(ChainLists, RejectChangesAfterTheFirstPass) {
  MultiNodeChainList model(*comm_);
  model.add_link("a", layer("a"));
  model.forward(Values{Variable(random_values(1))});
  testing::expect_error(ErrorKind::internal,
                        {"add_link() after the model's first pass", "add all components before"},
                        [&] { model.add_link("b", layer("b"), {.out = {rank_}}); });
}

TEST_F(ChainLists, RejectInvalidPlans) {
  using testing::error_everywhere_of;
  using testing::expect_error;
  MultiNodeChainList model(*comm_);
  expect_error(ErrorKind::usage, {"add_link", fmt::format("rank {} of", size_)},
               [&] { model.add_link("a", layer("a"), {.out = {size_}}); });
  model.add_link("a", layer("a"));
  expect_error(ErrorKind::usage, {"only one", "results"}, [&] { model.add_link("b", layer("b")); });
  expect_error(ErrorKind::usage, {"component a takes one value, found 2"}, [&] {
    model.forward(Values{Variable(random_values(1)), Variable(random_values(1))});
  });
  EXPECT_TRUE(model.communicates() == (size_ > 1));
  TASUKI_NEEDS_RANKS(2);
  // Both send first.
  MultiNodeChainList waiting(*comm_);
  if (rank_ < 2) {
    waiting.add_link("a", layer("a"), {.out = {1 - rank_}});
    waiting.add_link("b", layer("b"), {.in = {1 - rank_}});
  }
  EXPECT_EQ(error_everywhere_of(ErrorKind::usage,
                                [&] { waiting.forward(Values{Variable(random_values(1))}); }),
            "the model's components wait for each other: component 0 of rank 0 waits to send to "
            "rank 1; component 0 of rank 1 waits to send to rank 0");
}

TEST(ChainPlans, DetectDeadlocks) {
  using Plans = std::vector<ChainPlan>;
  EXPECT_EQ(find_deadlock(Plans{}), std::nullopt);
  EXPECT_EQ(find_deadlock({{{{}, {1}}, {{1}, {}}}, {{{0}, {0}}}}), std::nullopt);
  EXPECT_EQ(find_deadlock({{{{}, {0}}, {{0}, {}}}}), std::nullopt);
  EXPECT_EQ(find_deadlock({{{{0}, {}}}}),
            "component 0 of rank 0 takes a value that none before has kept for it");
  EXPECT_EQ(find_deadlock({{{{}, {0}}}}), "rank 0 keeps a value that none of its components takes");
  EXPECT_EQ(find_deadlock({{{{}, {1}}}, {}}),
            "component 0 of rank 0 waits to send to rank 1; rank 1 has come to its end");
  EXPECT_EQ(find_deadlock({{{{}, {1}}}, {{{2}, {}}}, {{{}, {}}}}),
            "component 0 of rank 0 waits to send to rank 1; component 0 of rank 1 waits to receive "
            "from rank 2");
}

}  // namespace
}  // namespace tasuki
