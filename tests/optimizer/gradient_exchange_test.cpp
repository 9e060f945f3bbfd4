// The exchange of gradients in ranges: the same bits whether it overlaps with the backward pass or
// follows it, for every kind of communicator and algorithm.
#include "optimizer/range_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "communicators.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "perceptron.hpp"
#include "prescribed.hpp"
#include "tests/support/watched.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using Entry = ParameterArena::Entry;

std::vector<Entry> entries(const std::vector<std::int64_t>& counts) {
  std::vector<Entry> made;
  std::int64_t end = 0;
  for (const std::int64_t count : counts) {
    made.push_back({"", nullptr, end, count});
    end += (count + 15) / 16 * 16;
  }
  return made;
}

using Ranges = std::vector<Range>;

TEST(ExchangeRanges, CombineSmallParameters) {
  EXPECT_EQ(exchange_ranges(entries({16, 16, 16, 16}), 80, 128), (Ranges{{0, 32}, {32, 80}}));
}
TEST(ExchangeRanges, SplitLargeParameters) {
  EXPECT_EQ(exchange_ranges(entries({10, 100, 10}), 160, 160),
            (Ranges{{0, 16}, {16, 48}, {48, 80}, {80, 112}, {112, 160}}));
}
TEST(ExchangeRanges, UseOneRangeForFewGradients) {
  EXPECT_EQ(exchange_ranges(entries({10, 100}), 144, 1 << 20), (Ranges{{0, 144}}));
}
TEST(ExchangeRanges, SpanAtLeastACacheLine) {
  EXPECT_EQ(exchange_ranges(entries({40}), 64, 1), (Ranges{{0, 16}, {16, 32}, {32, 64}}));
}

// The mode of each step, until there are no more trials.
std::vector<ExchangeMode> modes_tried(ExchangeTrials& trials) {
  std::vector<ExchangeMode> tried;
  while (!trials.is_over()) {
    tried.push_back(trials.mode());
    trials.add(tried.back() == ExchangeMode::slices ? 1 : 2);
  }
  return tried;
}

TEST(ExchangeTrials, AlternateModesAndSkipTheirFirstSteps) {
  ExchangeTrials trials({ExchangeMode::thread, ExchangeMode::slices});
  const std::vector<ExchangeMode> tried = modes_tried(trials);
  ASSERT_EQ(tried.size(), 12U);
  for (std::size_t i = 0; i < tried.size(); ++i)
    EXPECT_EQ(tried[i], i % 2 == 0 ? ExchangeMode::thread : ExchangeMode::slices);
  EXPECT_EQ(trials.seconds(), (std::vector<double>{2, 1, 2, 1, 2, 1, 2, 1, 2, 1}));
}
TEST(ExchangeTrials, ChooseByTheSlowestRanksMedian) {
  ExchangeTrials trials({ExchangeMode::thread, ExchangeMode::slices});
  modes_tried(trials);
  EXPECT_EQ(trials.mode(), ExchangeMode::thread);  // not decided yet
  // Slices are faster but for one outlier here, and slower on another rank.
  const std::string own = trials.decide({2, 1, 2, 9, 2, 1, 2, 1, 2, 1});
  EXPECT_EQ(trials.mode(), ExchangeMode::slices);
  EXPECT_EQ(own,
            "gradients travel in slices between layers: 1000.00 ms from the first gradient to the "
            "last sum, 2000.00 by a thread during the backward pass");
  trials.decide({2, 3, 2, 9, 2, 3, 2, 3, 2, 3});
  EXPECT_EQ(trials.mode(), ExchangeMode::thread);
}
TEST(ExchangeTrials, AreSkippedForASingleMode) {
  const ExchangeTrials trials({ExchangeMode::slices});
  EXPECT_TRUE(trials.is_over());
  EXPECT_EQ(trials.mode(), ExchangeMode::slices);
}

constexpr std::int64_t batch = 6;
constexpr std::uint64_t few_steps = 20, many_steps = 100;

// Steps in which ranks have other examples, other layers and, now and then, no examples.
class Training {
 public:
  Training(Communicator& communicator, ExchangeMode mode, bool knows_examples)
      : communicator_(communicator),
        knows_examples_(knows_examples),
        optimizer_(create_multi_node_optimizer(create_optimizer("momentum_sgd"), communicator)) {
    optimizer_->set_exchange({.mode = mode, .range_bytes = 2048});
    optimizer_->setup(model_);
    optimizer_->add_hook(gradient_clipping(1));
  }

  // The weights after so many steps, which are the same on all ranks.
  std::vector<float> weights_after(std::uint64_t steps) {
    while (step_ < steps) train();
    if (optimizer_->step_exchange().gradient_exchange() != nullptr) {
      EXPECT_GT(optimizer_->step_exchange().gradient_exchange()->ranges().size(), 5U);
    }
    const Tensor& weights = optimizer_->arena().values();
    for (const Tensor& others : communicator_.allgather(weights))
      EXPECT_EQ(std::memcmp(others.raw(), weights.raw(), weights.bytes()), 0);
    return testing::values_of(weights);
  }

 private:
  void train() {
    const auto rank = static_cast<std::uint64_t>(communicator_.rank());
    const auto ranks = static_cast<std::uint64_t>(communicator_.size());
    const auto examples_of = [&](std::uint64_t each) {
      return (step_ + each) % 5 == 0 && ranks > 1 ? 0 : batch;
    };
    std::int64_t of_all = 0;
    for (std::uint64_t each = 0; each < ranks; ++each) of_all += examples_of(each);
    const std::int64_t count = examples_of(rank);
    const auto examples = model_.examples(batch, step_, rank);
    StepScope scope;
    const Variable loss =
        optimizer_->forward([&] { return model_.loss(examples, (step_ + rank) % 3 == 0); }, count);
    optimizer_->update(optimizer_->backward_and_exchange(
        loss, count, knows_examples_ ? std::optional(of_all) : std::nullopt));
    scope.succeeded();
    ++step_;
  }

  Communicator& communicator_;
  bool knows_examples_;
  testing::Perceptron model_{{.inputs = 12, .hidden = 24, .classes = 5}};
  std::unique_ptr<Optimizer> optimizer_;
  std::uint64_t step_ = 0;
};

struct Case {
  std::string communicator;
  std::optional<AllreduceAlgorithm> algorithm{};
};

class Exchange : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string& kind = GetParam().communicator;
    if (!testing::is_possible_here(kind))
      GTEST_SKIP() << kind << " does not allow this placement of ranks";
    communicator_ = create_communicator(
        kind, {.sizes = {.message_chunk = 1024}, .algorithm = GetParam().algorithm});
    const bool is_of_nodes = kind == "hierarchical" || kind == "two_dimensional";
    if (is_of_nodes && communicator_->inter_size() == 1)
      GTEST_SKIP() << "on one node " << kind << " does what single_node does";
  }

  // Many with all algorithms of the kinds that `auto` may take here, and on one node of flat's.
  std::uint64_t steps() const {
    const std::string& kind = GetParam().communicator;
    const bool is_on_one_node = communicator_->inter_size() == 1;
    const bool is_usual = is_on_one_node ? kind == "single_node" || kind == "flat"
                                         : kind == "hierarchical" || kind == "two_dimensional";
    return is_usual ? many_steps : few_steps;
  }

  std::unique_ptr<Communicator> communicator_;
};

TEST_P(Exchange, AllModesAreBitIdentical) {
  Training whole(*communicator_, ExchangeMode::whole, true);
  const std::vector<float> after_few = whole.weights_after(few_steps);
  const auto after_few_of = [&](ExchangeMode mode, bool knows_examples) {
    return Training(*communicator_, mode, knows_examples).weights_after(few_steps);
  };
  EXPECT_EQ(after_few_of(ExchangeMode::thread, false), after_few);
  if (communicator_->supports(Background::slices)) {
    EXPECT_EQ(after_few_of(ExchangeMode::slices, true), after_few);
  }
  // Forms take turns in the first steps, and then one is chosen.
  Training overlapped(*communicator_, ExchangeMode::overlapped, true);
  EXPECT_EQ(overlapped.weights_after(steps()), whole.weights_after(steps()));
}

std::vector<Case> cases() {
  std::vector<Case> all{{"naive"}, {"single_node"}, {"double"}};
  for (const char* kind : {"flat", "hierarchical", "two_dimensional"})
    for (const AllreduceAlgorithm algorithm : allreduce_algorithms())
      if (algorithm != AllreduceAlgorithm::mpi) all.push_back({kind, algorithm});
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.communicator;
  if (info.param.algorithm) name += std::string("_") + name_of(*info.param.algorithm);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Exchange, ::testing::ValuesIn(cases()), name_of_case);

constexpr std::int64_t hidden = 40, classes = 5;

class Overlap : public ::testing::TestWithParam<ExchangeMode> {
 protected:
  // Two layers with a range for each at least. Calls `between` between their backward passes.
  Variable loss(const std::function<void()>& between) {
    const Tensor x = Tensor::full({batch, hidden}, 0.5F), t = Tensor::zeros({batch}, DType::int32);
    return F::softmax_cross_entropy(model_.upper(watched(model_.lower(Variable(x)), between)), t);
  }
  void step(const std::function<void()>& between, bool has_examples = true) {
    optimizer_->update([&] { return loss(between); }, has_examples ? batch : 0);
  }
  bool is_busy() const {
    try {
      communicator_->barrier();
    } catch (const Error& error) {
      return std::string(error.what()).find("busy with an exchange") != std::string::npos;
    }
    return false;
  }

  // Registered from the end to the beginning, so that the arena ends with what is complete first.
  struct Model : Module {
    using Module::add;
    Model() {
      add("upper", upper);
      add("lower", lower);
      initialize(3);
    }
    Linear lower{hidden, hidden}, upper{hidden, classes};
  };
  Linear added_{3, 3};
  Model model_;
  const std::unique_ptr<Communicator> communicator_ = create_communicator("auto");
  const int size_ = communicator_->size(), rank_ = communicator_->rank();
  const std::unique_ptr<Optimizer> optimizer_ = [this] {
    auto made = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
    made->set_exchange({.mode = GetParam(), .range_bytes = 1024});
    made->setup(model_);
    return made;
  }();
};

TEST_P(Overlap, StartsInTheSecondStepsBackwardPass) {
  if (size_ == 1) GTEST_SKIP() << "one rank exchanges nothing";
  for (int i = 0; i < 3; ++i) {
    bool was_busy = false;
    step([&] { was_busy = is_busy(); });
    EXPECT_EQ(was_busy, i > 0) << "step " << i;
  }
}

TEST_P(Overlap, OrdersRangesByTheFirstRankWithExamples) {
  if (size_ == 1) GTEST_SKIP() << "one rank exchanges nothing";
  step([] {}, rank_ > 0);  // rank 0 has seen nothing
  step([] {});
  const auto& exchange =
      dynamic_cast<const RangeExchange&>(*optimizer_->step_exchange().gradient_exchange());
  const std::vector<std::size_t>& order = exchange.order();
  EXPECT_EQ(order.front(), exchange.ranges().size() - 1);
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), exchange.ranges().size());
  const std::vector<std::int64_t> own(order.begin(), order.end());
  const Tensor mine = Tensor::from(std::span<const std::int64_t>(own), {std::ssize(own)});
  for (const Tensor& other : communicator_->allgather(mine))
    EXPECT_EQ(std::memcmp(other.raw(), mine.raw(), mine.bytes()), 0);
}

// All ranks give up a step between two layers. The next ones are those of a run without it.
TEST_P(Overlap, LeavesNoStateAfterAFailedBackwardPass) {
  const auto weights = [this] { return testing::values_of(optimizer_->arena().values()); };
  for (int i = 0; i < 2; ++i) step([] {});
  const std::vector<float> before = weights();
  for (int i = 0; i < 2; ++i) {
    const auto error = testing::caught([&] { step([] { fail(ErrorKind::data, "given up"); }); });
    ASSERT_TRUE(error);
    EXPECT_STREQ(error->what(), "given up");
    EXPECT_FALSE(is_busy());
  }
  EXPECT_EQ(weights(), before);
  for (int i = 0; i < 3; ++i) step([] {});
  const std::vector<float> with_failures = weights();

  Model other;
  auto undisturbed = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
  undisturbed->set_exchange({.mode = GetParam(), .range_bytes = 1024});
  undisturbed->setup(other);
  const Tensor x = Tensor::full({batch, hidden}, 0.5F), t = Tensor::zeros({batch}, DType::int32);
  for (int i = 0; i < 5; ++i)
    undisturbed->update(
        [&] { return F::softmax_cross_entropy(other.upper(other.lower(Variable(x))), t); }, batch);
  EXPECT_EQ(testing::values_of(undisturbed->arena().values()), with_failures);
}

// Ranks of dummy know nothing of each other's steps.
TEST_P(Overlap, DummyExchangesNothing) {
  const auto dummy = create_communicator("dummy");
  Model model;
  auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *dummy);
  optimizer->set_exchange({.mode = GetParam(), .range_bytes = 1024});
  optimizer->setup(model);
  const Tensor x = Tensor::full({batch, hidden}, 0.5F), t = Tensor::zeros({batch}, DType::int32);
  for (int i = 0; i < 3 + rank_; ++i)
    optimizer->update(
        [&] { return F::softmax_cross_entropy(model.upper(model.lower(Variable(x))), t); }, batch);
  EXPECT_EQ(optimizer->t(), 3 + rank_);
}

TEST_P(Overlap, DependsOnRankPlacementByDefault) {
  if (size_ == 1) GTEST_SKIP() << "one rank exchanges nothing";
  optimizer_->set_exchange({});
  const GradientExchange& exchange = *optimizer_->step_exchange().gradient_exchange();
  EXPECT_EQ(exchange.mode(),
            communicator_->inter_size() > 1 ? ExchangeMode::overlapped : ExchangeMode::whole);
  EXPECT_EQ(exchange.ranges().size(), 1U);
}

TEST_P(Overlap, NamesRankWhoseModelChanged) {
  if (size_ == 1) GTEST_SKIP() << "one rank exchanges nothing";
  for (int i = 0; i < 3; ++i) step([] {});
  added_.initialize(0);
  if (rank_ == 0) model_.add("added", added_);
  const auto error = testing::caught([&] { step([] {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::disagreement);
}

INSTANTIATE_TEST_SUITE_P(Modes, Overlap,
                         ::testing::Values(ExchangeMode::overlapped, ExchangeMode::slices),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tasuki
