// Pipelines compute what the chain computes from whole batches, in 1F1B order.
#include "parallel/pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/function.hpp"
#include "nn/functions/loss.hpp"
#include "nn/normalization.hpp"
#include "nn/recompute.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using Values = MultiNodeChainList::Values;
using Passes = std::vector<PipelinePass>;

constexpr std::int64_t width = 64;
// Messages of 37 examples are longer than what MPI sends without a receiver; 3 are fewer than some
// numbers of micro-batches.
constexpr std::int64_t batch_sizes[] = {37, 16, 3, 0};
constexpr std::int64_t numbers_of_micro_batches[] = {1, 2, 3, 4, 8};

std::string text_of(const Passes& passes) {
  std::string text;
  for (const PipelinePass& pass : passes)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", pass.is_backward ? 'B' : 'F',
                        pass.micro_batch);
  return text;
}

// The most micro-batches that have had their forward and not yet their backward pass.
std::int64_t most_in_flight(const Passes& passes) {
  std::int64_t now = 0, most = 0;
  for (const PipelinePass& pass : passes) {
    now += pass.is_backward ? -1 : 1;
    most = std::max(most, now);
  }
  return most;
}

TEST(OneForwardOneBackward, HasThePublishedOrder) {
  EXPECT_EQ(text_of(one_forward_one_backward(0, 1, 2)), "F0 B0 F1 B1");
  EXPECT_EQ(text_of(one_forward_one_backward(0, 2, 4)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text_of(one_forward_one_backward(1, 2, 4)), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text_of(one_forward_one_backward(0, 4, 5)), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(text_of(one_forward_one_backward(2, 4, 3)), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(text_of(one_forward_one_backward(0, 4, 2)), "F0 F1 B0 B1");
}

// No stage waits for a pass that comes later: with a pass a round, all stages end after as many
// rounds as the schedule has.
TEST(OneForwardOneBackward, StagesNeverWaitForEachOther) {
  for (int stages = 1; stages <= 6; ++stages)
    for (std::int64_t count = 1; count <= 9; ++count) {
      std::vector<Passes> waiting;
      for (int stage = 0; stage < stages; ++stage) {
        waiting.push_back(one_forward_one_backward(stage, stages, count));
        EXPECT_EQ(std::ssize(waiting.back()), 2 * count);
        EXPECT_EQ(most_in_flight(waiting.back()), std::min<std::int64_t>(stages - stage, count));
      }
      // Micro-batches that have arrived for a forward pass or a backward pass.
      std::vector<std::int64_t> values(static_cast<std::size_t>(stages), 0),
          gradients(static_cast<std::size_t>(stages), 0);
      values.front() = count;
      gradients.back() = count;
      const auto is_over = [&] { return std::ranges::all_of(waiting, &Passes::empty); };
      std::int64_t rounds = 0;
      for (; !is_over() && rounds < 100; ++rounds) {
        const auto arrived_values = values, arrived_gradients = gradients;
        for (std::size_t stage = 0; stage < waiting.size(); ++stage) {
          if (waiting[stage].empty()) continue;
          const auto [micro_batch, is_backward] = waiting[stage].front();
          if (micro_batch >= (is_backward ? arrived_gradients : arrived_values)[stage]) continue;
          waiting[stage].erase(waiting[stage].begin());
          if (!is_backward && stage + 1 < waiting.size()) ++values[stage + 1];
          if (is_backward && stage > 0) ++gradients[stage - 1];
        }
      }
      EXPECT_EQ(rounds, 2 * (count + stages - 1)) << stages << " stages, " << count;
    }
}

TEST(Lines, AreOneComponentOnEachRankInTheirOrder) {
  EXPECT_EQ(why_no_line({{{}}}), std::nullopt);
  EXPECT_EQ(why_no_line({{{{}, {1}}}, {{{0}, {2}}}, {{{1}, {}}}}), std::nullopt);
  EXPECT_EQ(why_no_line({{{{}, {1}}, {{1}, {}}}, {{{0}, {0}}}}),
            "expected one component on each rank, found 2 on rank 0");
  EXPECT_EQ(why_no_line({{{{}, {1}}}, {}}),
            "expected one component on each rank, found 0 on rank "
            "1");
  EXPECT_EQ(why_no_line({{{{1}, {}}}, {{{}, {0}}}}),
            "expected {.in = {}, .out = {1}} on rank 0, found {.in = {1}, .out = {}}");
  EXPECT_EQ(why_no_line({{{{}, {1, 2}}}, {{{0}, {2}}}, {{{0, 1}, {}}}}),
            "expected {.in = {}, .out = {1}} on rank 0, found {.in = {}, .out = {1, 2}}");
}

// Notes the passes of a component.
class Noted final : public Function {
 public:
  Noted(Passes& passes, std::int64_t micro_batch) : passes_(passes), micro_batch_(micro_batch) {}
  const char* name() const override { return "noted"; }
  void backward(const Tensor& gradient, Gradients& gradients) override {
    passes_.push_back({micro_batch_, true});
    if (gradients.needed(0)) gradients.add(0, gradient);
  }

 private:
  Passes& passes_;
  std::int64_t micro_batch_;
};

std::unique_ptr<Layer> stage_layers(bool normalises = false) {
  auto layers = std::make_unique<Sequential>();
  layers->append("a", std::make_unique<Linear>(width, width, true, initializers::lecun_normal(),
                                               /*relu=*/true));
  if (normalises) layers->append("bn", std::make_unique<BatchNorm>(width));
  layers->append("b", std::make_unique<Linear>(width, width));
  return layers;
}

std::string name_of_stage(int stage) {
  return fmt::format("stage{}", stage);
}

// All stages in one process.
class Whole : public Layer {
 public:
  explicit Whole(int stages, bool normalises = false) {
    for (int stage = 0; stage < stages; ++stage) {
      stages_.push_back(stage_layers(normalises));
      add(name_of_stage(stage), *stages_.back());
    }
    initialize(1);
  }
  Variable forward(const Variable& x) override {
    Variable y = x;
    for (const auto& stage : stages_) y = (*stage)(y);
    return y;
  }

 private:
  std::vector<std::unique_ptr<Layer>> stages_;
};

Tensor examples_of(std::int64_t count, std::uint64_t seed) {
  const Tensor made = Tensor::empty({count, width});
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

using NamedTensors = std::map<std::string, Tensor>;

NamedTensors gradients_of(const Module& model) {
  NamedTensors found;
  for (const auto& [path, parameter] : model.parameters()) found[path] = parameter->grad().clone();
  return found;
}

double norm(const Tensor& x) {
  double sum = 0;
  for (const float value : x.span<float>()) sum += double{value} * value;
  return std::sqrt(sum);
}

// The norm of the difference is at most 1e-6 of the norm.
void expect_close(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const Tensor difference = found.clone();
  for (std::int64_t i = 0; i < found.count(); ++i)
    difference.data<float>()[i] -= expected.data<float>()[i];
  EXPECT_LE(norm(difference), 1e-6 * norm(expected)) << what;
}

class Pipelines : public ::testing::Test {
 protected:
  // A chain of one stage on each rank of `comm`, with the weights of Whole.
  std::unique_ptr<MultiNodeChainList> chain_on(Communicator& comm, bool normalises = false) {
    auto chain = std::make_unique<MultiNodeChainList>(comm);
    auto layers = stage_layers(normalises);
    Layer& stage = *layers;
    LinkRanks ranks;
    if (comm.rank() > 0) ranks.in = {comm.rank() - 1};
    if (comm.rank() + 1 < comm.size()) ranks.out = {comm.rank() + 1};
    chain->add_link(
        name_of_stage(comm.rank()), std::move(layers),
        [this, &stage](const Values& inputs) -> Values {
          if (component_) return {component_(stage, inputs.at(0))};
          passes_.push_back({micro_batch_, false});
          const Variable y = stage(inputs.at(0));
          return {Function::record(y.value(), {y},
                                   [&] { return std::make_unique<Noted>(passes_, micro_batch_); })};
        },
        ranks);
    chain->initialize(1);
    return chain;
  }
  Variable loss_of(Communicator& comm, MultiNodeChainList& chain, Range part) {
    const Variable y =
        chain(comm.rank() == 0 ? Variable(x_.slice(part.begin, part.end)) : Variable());
    if (comm.rank() + 1 < comm.size()) return y;
    return F::mean_squared_error(y, t_.slice(part.begin, part.end));
  }
  void set_batch(std::int64_t count, std::uint64_t seed = 5) {
    x_ = examples_of(count, seed);
    t_ = examples_of(count, seed + 1);
  }
  std::int64_t count() const { return x_.shape()[0]; }
  // A step of sums over examples; the last rank returns the batch's mean loss.
  double run(Pipeline& pipeline, MultiNodeChainList& chain) {
    chain.clear_grads();
    passes_.clear();
    double sum = 0;
    pipeline.run(
        [&](std::int64_t i) {
          micro_batch_ = i;
          const Range part = pipeline.part(count(), i);
          const Variable loss = loss_of(*comm_, chain, part);
          if (part.size() > 0) sum += loss.value().item() * static_cast<double>(part.size());
          return loss;
        },
        [&](std::int64_t i, const Variable& loss) {
          loss.backward(static_cast<float>(pipeline.part(count(), i).size()));
        });
    return count() > 0 ? sum / static_cast<double>(count()) : 0;
  }

  const std::unique_ptr<Communicator> comm_ = create_communicator("naive");
  const int rank_ = comm_->rank(), size_ = comm_->size();
  const bool is_last_ = rank_ + 1 == size_;
  Tensor x_, t_;
  std::int64_t micro_batch_ = 0;
  Passes passes_;
  // In place of noting passes.
  std::function<Variable(Layer& stage, const Variable& x)> component_;
};

TEST_F(Pipelines, ComputeWhatWholeBatchesDo) {
  const auto chain = chain_on(*comm_);
  Whole whole(size_);
  for (const std::int64_t examples : batch_sizes) {
    set_batch(examples);
    // The reference, and the chain's own pass.
    whole.clear_grads();
    const Variable expected_loss = F::mean_squared_error(whole(Variable(x_)), t_);
    expected_loss.backward(static_cast<float>(examples));
    const NamedTensors expected = gradients_of(whole);
    chain->clear_grads();
    const Variable loss = loss_of(*comm_, *chain, {0, examples});
    loss.backward(static_cast<float>(examples));
    const NamedTensors of_chain = gradients_of(*chain);

    for (const std::int64_t micro_batches : numbers_of_micro_batches) {
      SCOPED_TRACE(fmt::format("{} examples in {} micro-batches", examples, micro_batches));
      Pipeline pipeline(*chain, micro_batches);
      EXPECT_EQ(pipeline.stages(), size_);
      EXPECT_EQ(pipeline.stage(), rank_);
      const double found_loss = run(pipeline, *chain);
      if (is_last_ && examples > 0) {
        EXPECT_NEAR(found_loss, expected_loss.value().item(), 1e-6 * found_loss);
        EXPECT_NEAR(found_loss, loss.value().item(), 1e-6 * found_loss);
      }
      for (const auto& [path, gradient] : gradients_of(*chain)) {
        expect_close(gradient, expected.at(path), path);
        expect_close(gradient, of_chain.at(path), path + " of the chain");
      }
    }
  }
}

TEST_F(Pipelines, RunPassesInOrder) {
  const auto chain = chain_on(*comm_);
  set_batch(19);
  for (const std::int64_t micro_batches : numbers_of_micro_batches) {
    Pipeline pipeline(*chain, micro_batches);
    run(pipeline, *chain);
    EXPECT_EQ(text_of(passes_), text_of(one_forward_one_backward(rank_, size_, micro_batches)));
    EXPECT_LE(most_in_flight(passes_), size_ - rank_);
  }
}

TEST_F(Pipelines, MayRecomputeBlocks) {
  const auto chain = chain_on(*comm_);
  set_batch(37);
  Pipeline pipeline(*chain, 4);
  run(pipeline, *chain);
  const NamedTensors kept = gradients_of(*chain);
  component_ = [](Layer& stage, const Variable& x) {
    return recompute([&stage](const Variable& input) { return stage(input); }, x);
  };
  run(pipeline, *chain);
  for (const auto& [path, gradient] : gradients_of(*chain))
    expect_close(gradient, kept.at(path), path);
}

// Running averages follow each micro-batch, as they follow the batches of --accumulate.
TEST_F(Pipelines, UpdateRunningStatisticsForEachMicroBatch) {
  const auto chain = chain_on(*comm_, /*normalises=*/true);
  set_batch(16);
  Pipeline pipeline(*chain, 4);
  run(pipeline, *chain);
  Whole whole(size_, /*normalises=*/true);
  for (std::int64_t i = 0; i < 4; ++i) {
    const Range part = pipeline.part(16, i);
    F::mean_squared_error(whole(Variable(x_.slice(part.begin, part.end))),
                          t_.slice(part.begin, part.end))
        .backward(static_cast<float>(part.size()));
  }
  std::map<std::string, const Tensor*> expected;
  for (const auto& [path, tensor] : whole.buffers()) expected[path] = tensor;
  int compared = 0;
  for (const auto& [path, tensor] : chain->buffers())
    if (tensor->dtype() == DType::float32 && tensor->count() == width) {
      expect_close(*tensor, *expected.at(path), path);
      ++compared;
    }
  EXPECT_EQ(compared, 2);
}

std::unique_ptr<Optimizer> momentum() {
  auto optimizer = create_optimizer("momentum_sgd");
  optimizer->set("lr", 0.05);
  return optimizer;
}

void expect_same_weights(const Module& chain, const Module& whole) {
  std::map<std::string, const Parameter*> expected;
  for (const auto& [path, parameter] : whole.parameters()) expected[path] = parameter;
  for (const auto& [path, parameter] : chain.parameters())
    expect_close(parameter->value(), expected.at(path)->value(), path);
}

constexpr std::int64_t sizes_of_steps[] = {37, 2, 0, 16};

TEST_F(Pipelines, TrainLikeOneProcess) {
  const auto chain = chain_on(*comm_);
  Whole whole(size_);
  const auto optimizer = momentum(), of_whole = momentum();
  optimizer->setup(*chain);
  of_whole->setup(whole);
  Pipeline pipeline(*chain, 4);
  for (const std::int64_t examples : sizes_of_steps) {
    set_batch(examples, static_cast<std::uint64_t>(examples) + 20);
    const auto part = [&](std::int64_t i) { return pipeline.part(examples, i); };
    StepScope step;
    pipeline.run(
        [&](std::int64_t i) {
          return optimizer->forward([&] { return loss_of(*comm_, *chain, part(i)); },
                                    part(i).size(), true);
        },
        [&](std::int64_t i, const Variable& loss) { optimizer->backward(loss, part(i).size()); });
    optimizer->update(optimizer->exchange());
    step.succeeded();
    of_whole->update([&] { return F::mean_squared_error(whole(Variable(x_)), t_); }, examples);
  }
  expect_same_weights(*chain, whole);
}

// Two chains of two ranks, whose batches differ in size; ranks of one stage exchange gradients.
TEST_F(Pipelines, TrainDataParallel) {
  if (size_ != 4) GTEST_SKIP() << "needs 4 ranks";
  const auto own = comm_->split(rank_ / 2, rank_), replicas = comm_->split(rank_ % 2, rank_);
  const auto chain = chain_on(*own);
  Whole whole(2);
  auto of_whole = momentum();
  const auto optimizer = create_multi_node_optimizer(momentum(), *replicas);
  optimizer->setup(*chain);
  of_whole->setup(whole);
  Pipeline pipeline(*chain, 3);
  for (const std::int64_t examples : sizes_of_steps) {
    // Of the second chain: a third, so none of 2.
    const std::int64_t first = examples - examples / 3;
    set_batch(examples, static_cast<std::uint64_t>(examples) + 20);
    of_whole->update([&] { return F::mean_squared_error(whole(Variable(x_)), t_); }, examples);
    const Range share = rank_ < 2 ? Range{0, first} : Range{first, examples};
    const auto part = [&](std::int64_t i) {
      const Range of_share = pipeline.part(share.size(), i);
      return Range{share.begin + of_share.begin, share.begin + of_share.end};
    };
    StepScope step;
    pipeline.run(
        [&](std::int64_t i) {
          return optimizer->forward([&] { return loss_of(*own, *chain, part(i)); }, part(i).size(),
                                    true);
        },
        [&](std::int64_t i, const Variable& loss) { optimizer->backward(loss, part(i).size()); });
    EXPECT_EQ(optimizer->exchange(), examples);
    optimizer->update(examples);
    step.succeeded();
  }
  expect_same_weights(*chain, whole);
}

TEST_F(Pipelines, RefuseOtherChains) {
  using testing::error_everywhere_of;
  MultiNodeChainList several(*comm_);
  const auto same = [](const Values& values) { return values; };
  several.add_link(same, {.out = {rank_}});
  several.add_link(same, {.in = {rank_}});
  EXPECT_EQ(error_everywhere_of(ErrorKind::usage, [&] { Pipeline(several, 2); }),
            "Pipeline: the components do not lie in a line: expected one component on each rank, "
            "found 2 on rank 0");
  const auto chain = chain_on(*comm_);
  EXPECT_EQ(error_everywhere_of(ErrorKind::usage, [&] { Pipeline(*chain, 0); }),
            "Pipeline: expected at least 1 micro-batch, found 0");
  const Pipeline pipeline(*chain, 2);
  testing::expect_error(ErrorKind::internal, {"add_link() after the model's first pass"},
                        [&] { chain->add_link(same, {.out = {rank_}}); });
  if (size_ == 1) return;
  EXPECT_EQ(error_everywhere_of(ErrorKind::usage, [&] { Pipeline(*chain, is_last_ ? 3 : 4); }),
            fmt::format("Pipeline: expected one number of micro-batches on all ranks, found 4 on "
                        "rank 0 and 3 on rank {}",
                        size_ - 1));
  MultiNodeChainList reversed(*comm_);
  LinkRanks ranks;
  if (rank_ > 0) ranks.out = {rank_ - 1};
  if (!is_last_) ranks.in = {rank_ + 1};
  reversed.add_link(same, ranks);
  EXPECT_EQ(error_everywhere_of(ErrorKind::usage, [&] { Pipeline(reversed, 2); }),
            "Pipeline: the components do not lie in a line: expected {.in = {}, .out = {1}} on "
            "rank 0, found {.in = {1}, .out = {}}");
}

}  // namespace
}  // namespace tasuki
