// What rounding and compression take from gradients is kept for later steps: networks learn, and
// nothing is lost however many examples steps have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "communicators.hpp"
#include "compressed_network.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::Network;
using testing::random_values;

struct Way {
  const char* name;
  DType wire = DType::float32;
  ExchangeSettings settings{};
};

class CompressedTraining : public ::testing::TestWithParam<Way> {};

// Ranks have other examples, and now and then none.
TEST_P(CompressedTraining, KeepsTheSameWeightsOnAllRanks) {
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
class ErrorFeedback : public ::testing::TestWithParam<std::tuple<Way, bool>> {
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
      return optimizer->step_exchange().gradient_exchange()->carried_over();
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
TEST_P(ErrorFeedback, WeightsExamplesEquallyInStepsOfAnySize) {
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

TEST_P(ErrorFeedback, ResumesWithItsExampleCount) {
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
TEST_P(ErrorFeedback, NamesRankWhoseModelChanged) {
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
    Ways, ErrorFeedback,
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

TEST(CompressionSettings, RejectInvalidCombinations) {
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

TEST(CompressionSettings, ErrorFeedbackExcludesLossScaling) {
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
    testing::expect_error(ErrorKind::usage, {words}, [&] { optimizer->guard().scale_losses({}); });
    scaled->setup(scaled_model);
    scaled->guard().scale_losses({});
    testing::expect_error(ErrorKind::usage, {words},
                          [&, &chosen = settings] { scaled->set_exchange(chosen); });
    // Ranks go on as before.
    EXPECT_NE(scaled->step_exchange().gradient_exchange(), nullptr);
    EXPECT_EQ(scaled->step_exchange().settings().text(), ExchangeSettings().text());
  }
}

}  // namespace
}  // namespace tasuki
