// PowerSGD: what arrives of matrices of low and of full rank, what is kept for later steps, and
// that all ranks come to the same bits. What is kept of rounded gradients is tested here, too.
#include "tasuki/optimizer/power_sgd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "communicators.hpp"
#include "errors.hpp"
#include "prescribed.hpp"
#include "tasuki/core/philox.hpp"
#include "tasuki/nn/conv2d.hpp"
#include "tasuki/nn/functions/activation.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/optimizer/low_rank.hpp"
#include "tasuki/optimizer/optimizer.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t rank_of_test = 2;

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = random.normal();
  return values;
}

double dot(const float* x, const float* y, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

void expect_orthonormal(const std::vector<float>& vectors, std::int64_t length, std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      EXPECT_NEAR(dot(&vectors[static_cast<std::size_t>(i * length)],
                      &vectors[static_cast<std::size_t>(j * length)], length),
                  i == j ? 1 : 0, 1e-6)
          << i << ", " << j;
}

TEST(Orthonormalize, KeepsTheSpan) {
  constexpr std::int64_t length = 37, k = 5;
  const std::vector<float> before = random_values(length * k, 3);
  std::vector<float> vectors = before;
  // Nearly parallel ones lose most of their digits in one pass.
  for (std::size_t i = 0; i < length; ++i)
    vectors[length + i] = vectors[i] + 1e-4F * vectors[length + i];
  const std::vector<float> first(vectors.begin(), vectors.begin() + length);
  orthonormalize(vectors.data(), length, k, std::nullopt);
  expect_orthonormal(vectors, length, k);
  const double norm = std::sqrt(dot(first.data(), first.data(), length));
  for (std::size_t i = 0; i < length; ++i) EXPECT_NEAR(vectors[i], first[i] / norm, 1e-6);
}

TEST(Orthonormalize, VectorsThatDependOnOthersBecomeZeroOrAreDrawn) {
  constexpr std::int64_t length = 40, k = 4;
  std::vector<float> vectors = random_values(length * k, 5);
  for (std::size_t i = 0; i < length; ++i) {
    vectors[length + i] = 3 * vectors[i];
    vectors[2 * length + i] = 0;
  }
  std::vector<float> drawn = vectors, again = vectors;
  orthonormalize(vectors.data(), length, k, std::nullopt);
  for (std::size_t i = length; i < 3 * length; ++i) ASSERT_EQ(vectors[i], 0);
  EXPECT_NEAR(dot(&vectors[3 * length], &vectors[3 * length], length), 1, 1e-6);
  orthonormalize(drawn.data(), length, k, 7);
  expect_orthonormal(drawn, length, k);
  orthonormalize(again.data(), length, k, 7);
  EXPECT_EQ(drawn, again);
}

// Weights of 20 x 50 and, as matrices, 8 x 36; biases, and a matrix that would not become smaller.
class Network : public Module {
 public:
  Network() {
    add("conv", conv_);
    add("wide", wide_);
    add("small", small_);
    initialize(1);
  }
  using Module::add;
  Variable loss(const Tensor& x, const Tensor& t) {
    Variable h = relu(conv_(Variable(x)));
    return softmax_cross_entropy(small_(relu(wide_(h))), t);
  }

 private:
  Conv2d conv_{4, 8, 3};
  Linear wide_{32, 20}, small_{20, 2};
};

class Compression : public ::testing::Test {
 protected:
  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }

  // The part of the arena that belongs to a parameter.
  std::span<float> gradient(const std::string& path) const {
    for (const ParameterArena::Entry& entry : arena_.entries())
      if (entry.path == path) return ParameterArena::part(arena_.gradients(), entry).span<float>();
    ADD_FAILURE() << "no parameter " << path;
    return {};
  }

  void fill_with_random(std::uint64_t seed) const {
    RandomStream random(seed, static_cast<std::uint64_t>(rank()));
    for (const ParameterArena::Entry& entry : arena_.entries())
      for (float& value : gradient(entry.path)) value = random.normal();
  }

  std::vector<double> sums() const { return sum_of_all(arena_.gradients()); }
  std::vector<double> sum_of_all(const Tensor& values) const {
    const Tensor sum = values.to(DType::float64);
    comm_->allreduce(sum);
    const auto span = sum.span<double>();
    return {span.begin(), span.end()};
  }

  void expect_same_bits_everywhere() const {
    for (const Tensor& others : comm_->allgather(arena_.gradients()))
      EXPECT_EQ(std::memcmp(others.raw(), arena_.gradients().raw(), others.bytes()), 0);
  }

  std::unique_ptr<Communicator> comm_ = create_communicator("auto");
  Network model_;
  ParameterArena arena_{model_, comm_.get()};
  PowerSgd power_sgd_{arena_, *comm_, rank_of_test};
};

TEST_F(Compression, SendsWhatItSaves) {
  const auto padded = [](std::int64_t count) { return (count + 15) / 16 * 16; };
  const std::int64_t matrices = padded(2 * 8) + padded(2 * 36) + padded(2 * 20) + padded(2 * 32);
  // Biases, small/W and the notices.
  const std::int64_t plain = padded(8) + padded(20) + padded(2) + padded(40) + 16;
  EXPECT_EQ(power_sgd_.count(), matrices + plain);
  EXPECT_EQ(power_sgd_.uncompressed_count(), padded(8 * 36) + padded(20 * 32) + plain);
}

TEST_F(Compression, SumsOfLowRankArriveWhole) {
  const std::vector<float> rows = random_values(20 * rank_of_test, 1),
                           columns = random_values(32 * rank_of_test, 2);
  for (int turn = 0; turn < 3; ++turn) {
    fill_with_random(1);
    const std::span<float> weights = gradient("wide/W");
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t j = 0; j < 32; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < rank_of_test; ++k)
          sum += (k + 1 + rank() + turn) *
                 static_cast<double>(rows[static_cast<std::size_t>(k * 20 + i)] *
                                     columns[static_cast<std::size_t>(k * 32 + j)]);
        weights[static_cast<std::size_t>(i * 32 + j)] = static_cast<float>(sum);
      }
    const std::vector<double> expected = sums();
    power_sgd_.exchange(0);
    const auto offset = static_cast<std::size_t>(weights.data() - arena_.gradients().data<float>());
    for (std::size_t i = 0; i < weights.size(); ++i)
      ASSERT_NEAR(weights[i], expected[offset + i], 1e-4 * size()) << "turn " << turn;
    expect_same_bits_everywhere();
  }
}

TEST_F(Compression, WhatHasOneAxisOrWouldNotBecomeSmallerIsSummedExactly) {
  fill_with_random(4);
  arena_.notice().fill(1);
  arena_.examples_notice().fill(4095);
  const std::vector<double> expected = sums();
  power_sgd_.exchange(0);
  for (const char* path : {"conv/b", "wide/b", "small/W", "small/b"}) {
    const std::span<float> found = gradient(path);
    const auto offset = static_cast<std::size_t>(found.data() - arena_.gradients().data<float>());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[offset + i], 1e-5) << path;
  }
  EXPECT_EQ(arena_.notice().item(), size());
  EXPECT_EQ(arena_.examples_notice().data<float>()[1], 4095.0F * static_cast<float>(size()));
}

// Of a matrix of full rank a part arrives at once, and the rest in later steps.
TEST_F(Compression, NothingIsLostOverManySteps) {
  constexpr int steps = 60;
  std::vector<double> arrived(static_cast<std::size_t>(arena_.gradients().count()), 0), expected;
  double first_miss = 0;
  const auto miss = [&](int done) {
    double squares = 0, all = 0;
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      squares += (arrived[i] - done * expected[i]) * (arrived[i] - done * expected[i]);
      all += done * expected[i] * done * expected[i];
    }
    return std::sqrt(squares / all);
  };
  for (int step = 0; step < steps; ++step) {
    fill_with_random(9);
    expected = sums();
    power_sgd_.exchange(0);
    const auto found = arena_.gradients().span<float>();
    for (std::size_t i = 0; i < arrived.size(); ++i) arrived[i] += found[i];
    if (step == 0) first_miss = miss(1);
  }
  expect_same_bits_everywhere();
  EXPECT_GT(first_miss, 0.3);
  EXPECT_LT(miss(steps), first_miss / 4);
  const std::vector<double> kept = sum_of_all(power_sgd_.errors());
  for (std::size_t i = 0; i < arrived.size(); ++i)
    ASSERT_NEAR(arrived[i] + kept[i], steps * expected[i], 2e-3 * size()) << "element " << i;
}

TEST_F(Compression, GoesOnFromWhatIsCarriedOver) {
  fill_with_random(1);
  power_sgd_.exchange(0);
  PowerSgd other(arena_, *comm_, rank_of_test);
  other.errors().copy_from(power_sgd_.errors());
  other.directions().copy_from(power_sgd_.directions());
  fill_with_random(2);
  power_sgd_.exchange(0);
  const Tensor expected = arena_.gradients().clone();
  fill_with_random(2);
  other.exchange(0);
  EXPECT_EQ(std::memcmp(expected.raw(), arena_.gradients().raw(), expected.bytes()), 0);
}

// A step of numbers that are not finite spoils no other.
TEST_F(Compression, KeepsOnlyWhatIsFinite) {
  fill_with_random(1);
  power_sgd_.exchange(0);
  fill_with_random(2);
  if (rank() == 0) {
    gradient("wide/W")[3] = INFINITY;
    gradient("conv/W")[5] = NAN;
  }
  power_sgd_.exchange(0);
  const auto is_finite = [](float value) { return std::isfinite(value); };
  EXPECT_TRUE(std::ranges::all_of(power_sgd_.errors().span<float>(), is_finite));
  fill_with_random(3);
  power_sgd_.exchange(0);
  EXPECT_TRUE(std::ranges::all_of(arena_.gradients().span<float>(), is_finite));
}

// A communicator whose sums differ in the last bits on odd ranks, as MPI's may.
class Uneven : public Communicator {
 public:
  Uneven() : Communicator({.name = "uneven"}) {}

 protected:
  void combine(const Tensor& values, ReduceOp op) override {
    Communicator::combine(values, op);
    if (values.dtype() != DType::float32 || rank() % 2 == 0) return;
    for (float& value : values.span<float>()) value = std::nextafter(value, 1e30F);
  }
};

TEST(CompressionByOtherSums, GivesTheSameBitsOnAllRanks) {
  Uneven comm;
  Network model;
  ParameterArena arena{model, &comm};
  PowerSgd power_sgd{arena, comm, rank_of_test};
  for (int step = 0; step < 3; ++step) {
    // Of rank 1: only rounding decides about the second direction.
    for (const ParameterArena::Entry& entry : arena.entries()) {
      const auto gradient = ParameterArena::part(arena.gradients(), entry).span<float>();
      const std::size_t columns =
          gradient.size() / static_cast<std::size_t>(entry.parameter->shape()[0]);
      const std::vector<float> x = random_values(std::ssize(gradient), 5),
                               y = random_values(400, 6);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = x[i / columns] * y[i % columns] * static_cast<float>(1 + comm.rank() + step);
    }
    arena.notice().fill(1);
    power_sgd.exchange(0);
    EXPECT_EQ(arena.notice().item(), comm.size());
    for (const Tensor& others : comm.allgather(arena.gradients()))
      ASSERT_EQ(std::memcmp(others.raw(), arena.gradients().raw(), others.bytes()), 0)
          << "step " << step;
  }
}

struct Way {
  const char* name;
  DType wire = DType::float32;
  ExchangeSettings settings{};
};

class CompressedTraining : public ::testing::TestWithParam<Way> {};

// Ranks have other examples, and now and then none.
TEST_P(CompressedTraining, LearnsWithTheSameWeightsOnAllRanks) {
  const auto comm = create_communicator("flat", {.wire_dtype = GetParam().wire});
  Network model;
  const auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
  optimizer->set_exchange(GetParam().settings);
  optimizer->setup(model);
  optimizer->set("lr", 0.05);
  double first = 0, last = 0;
  for (std::uint64_t step = 0; step < 60; ++step) {
    RandomStream random(step, static_cast<std::uint64_t>(comm->rank()));
    const Tensor x = Tensor::empty({8, 4, 4, 4}), t = Tensor::empty({8}, DType::int32);
    for (std::int64_t i = 0; i < 8; ++i) {
      t.data<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(2));
      for (std::int64_t j = 0; j < 64; ++j)
        x.data<float>()[i * 64 + j] =
            random.normal() + (t.data<std::int32_t>()[i] == 1 && j < 16 ? 1.0F : 0.0F);
    }
    const bool is_idle = comm->size() > 1 && step % 7 == 3 && comm->rank() == 1;
    const Tensor loss = optimizer->update([&] { return model.loss(x, t); }, is_idle ? 0 : 8);
    if (!is_idle && (step < 5 || step >= 55)) (step < 5 ? first : last) += loss.item();
  }
  if (comm->rank() == 0) {
    EXPECT_LT(last, first * 0.8);
  }
  const Tensor& weights = optimizer->arena().values();
  for (const Tensor& others : comm->allgather(weights))
    EXPECT_EQ(std::memcmp(others.raw(), weights.raw(), weights.bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, CompressedTraining,
    ::testing::Values(
        Way{"fp16", DType::float16}, Way{"bf16", DType::bfloat16},
        Way{"bf16_with_feedback", DType::bfloat16, {.range_bytes = 256, .error_feedback = true}},
        Way{"powersgd", DType::float32, {.power_sgd_rank = 2}},
        Way{"powersgd_fp16", DType::float16, {.power_sgd_rank = 2}}),
    [](const ::testing::TestParamInfo<Way>& info) { return std::string(info.param.name); });

// Whether the program says how many examples all ranks have.
class KeptErrors : public ::testing::TestWithParam<std::tuple<Way, bool>> {
 protected:
  struct Run {
    Run(Communicator& comm, const ExchangeSettings& settings)
        : optimizer(create_multi_node_optimizer(create_optimizer("sgd"), comm)) {
      optimizer->set_exchange(settings);
      optimizer->setup(model);
      optimizer->set("lr", 1);
      for (const ParameterArena::Entry& each : optimizer->arena().entries())
        if (each.path == "wide/W") entry = each;
    }
    std::vector<float> weights() const { return testing::values_of(entry.parameter->value()); }
    std::vector<Tensor> carried_over() const {
      return optimizer->gradient_exchange()->carried_over();
    }

    Network model;
    std::unique_ptr<Optimizer> optimizer;
    ParameterArena::Entry entry{};  // of the only parameter with gradients
  };

  void SetUp() override {
    comm_ = create_communicator("flat", {.wire_dtype = std::get<Way>(GetParam()).wire});
    if (comm_->size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  }

  Run new_run() const { return {*comm_, std::get<Way>(GetParam()).settings}; }

  std::vector<double> sum_of_all(const Tensor& own) const {
    const Tensor sum = own.to(DType::float64);
    comm_->allreduce(sum);
    return {sum.span<double>().begin(), sum.span<double>().end()};
  }

  // A step in which this rank has so many examples. Returns the gradient's mean.
  std::vector<double> step(const Run& run, std::uint64_t number, std::int64_t examples) const {
    const Shape shape = run.entry.parameter->shape();
    const auto random =
        random_values(shape.count(), 100 * number + static_cast<std::uint64_t>(comm_->rank()));
    const Tensor gradient = Tensor::from(std::span<const float>(random), shape);
    const double of_all =
        sum_of_all(Tensor::full({}, static_cast<double>(examples), DType::float64))[0];
    Tensor part = gradient.clone();
    for (float& value : part.span<float>()) value *= static_cast<float>(examples);
    std::vector<double> mean = sum_of_all(part);
    for (double& value : mean) value /= std::max(of_all, 1.0);

    const auto loss = [&] {
      return testing::loss_with_gradients({{run.entry.parameter, gradient}});
    };
    if (std::get<bool>(GetParam()))
      testing::update_of(*run.optimizer, loss, examples, static_cast<std::int64_t>(of_all));
    else
      run.optimizer->update(loss, examples);
    return mean;
  }

  std::unique_ptr<Communicator> comm_;
};

// The gradients that were used and those that are still kept, each divided by the number of its
// examples, add up to all mean gradients, however many examples steps have.
TEST_P(KeptErrors, CountAsOftenInShortStepsAsInLongOnes) {
  const Run run = new_run();
  const std::vector<float> first = run.weights();
  std::vector<double> means(first.size(), 0);
  const int rank = comm_->rank(), last = comm_->size() - 1;
  const std::vector<std::int64_t> examples = {50 + rank, 60,        rank == 0 ? 1 : 0,   0,
                                              0,         70 - rank, rank == last ? 3 : 0};
  double of_last = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    SCOPED_TRACE(i);
    const double of_all =
        sum_of_all(Tensor::full({}, static_cast<double>(examples[i]), DType::float64))[0];
    if (of_all > 0) of_last = of_all;
    const std::vector<double> mean = step(run, i, examples[i]);
    const std::vector<Tensor> left = run.carried_over();
    EXPECT_EQ(left.back().item(), of_last);
    const std::vector<double> kept = sum_of_all(ParameterArena::part(left.front(), run.entry));
    EXPECT_GT(*std::ranges::max_element(kept), 0);
    const std::vector<float> now = run.weights();
    for (std::size_t j = 0; j < now.size(); ++j) {
      means[j] += mean[j];
      ASSERT_NEAR(static_cast<double>(first[j] - now[j]) + kept[j] / of_last, means[j], 1e-4)
          << "element " << j;
    }
  }
}

TEST_P(KeptErrors, GoOnWithTheirNumberOfExamples) {
  const Run run = new_run(), other = new_run();
  step(run, 0, 60);
  const std::vector<Tensor> from = run.carried_over(), to = other.carried_over();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_from(from[i]);
  const std::vector<float> before = run.weights(), before_other = other.weights();
  for (const Run* each : {&run, &other}) step(*each, 1, comm_->rank() == 0 ? 1 : 0);
  const std::vector<float> after = run.weights(), after_other = other.weights();
  for (std::size_t i = 0; i < after.size(); ++i)
    ASSERT_NEAR(after[i] - before[i], after_other[i] - before_other[i], 1e-5);
}

// That rank does not know whether the others say how many examples there are.
TEST_P(KeptErrors, AModelThatChangedOnOneRankIsNamed) {
  for (const std::uint64_t steps : {0UL, 3UL}) {
    Run run = new_run();
    Linear more{3, 2};
    more.initialize(1);
    for (std::uint64_t i = 0; i < steps; ++i) step(run, i, 8);
    if (comm_->rank() == 0) run.model.add("more", more);
    const auto error = testing::caught([&] { step(run, steps, 8); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::disagreement);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, KeptErrors,
    ::testing::Combine(::testing::Values(Way{"bf16_overlapped",
                                             DType::bfloat16,
                                             {.mode = ExchangeMode::overlapped,
                                              .range_bytes = 256,
                                              .error_feedback = true}},
                                         Way{"powersgd", DType::float32, {.power_sgd_rank = 2}}),
                       ::testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<Way>(info.param).name) +
             (std::get<bool>(info.param) ? "_of_known_number" : "");
    });

TEST(CompressionSettings, ThatDoNotFitAreRefused) {
  const auto comm = create_communicator("auto");
  if (comm->size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  const auto error_of = [&](const ExchangeSettings& settings) {
    Network model;
    const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm);
    optimizer->set_exchange(settings);
    return testing::error_everywhere_of(ErrorKind::usage, [&] { optimizer->setup(model); });
  };
  EXPECT_NE(error_of({.error_feedback = true}).find("float32 is not rounded"), std::string::npos);
  EXPECT_NE(error_of({.mode = ExchangeMode::overlapped, .power_sgd_rank = 4})
                .find("travel after the backward pass"),
            std::string::npos);
  EXPECT_NE(error_of({.error_feedback = true, .power_sgd_rank = 4})
                .find("error feedback and compressed gradients exclude each other"),
            std::string::npos);
}

TEST(CompressionSettings, ThatLeaveSomethingForTheNextStepExcludeLossScaling) {
  const auto comm = create_communicator("naive", {.wire_dtype = DType::bfloat16});
  if (comm->size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  const std::pair<ExchangeSettings, std::string> cases[] = {
      {{.error_feedback = true}, "error feedback and loss scaling"},
      {{.power_sgd_rank = 4}, "compressed gradients and loss scaling"}};
  for (const auto& [settings, words] : cases) {
    Network model, scaled_model;
    const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm),
               scaled = create_multi_node_optimizer(create_optimizer("sgd"), *comm);
    optimizer->setup(model);
    optimizer->set_exchange(settings);
    testing::expect_error(ErrorKind::usage, {words}, [&] { optimizer->scale_losses({}); });
    scaled->setup(scaled_model);
    scaled->scale_losses({});
    testing::expect_error(ErrorKind::usage, {words},
                          [&, &chosen = settings] { scaled->set_exchange(chosen); });
  }
}

}  // namespace
}  // namespace tasuki
