// How gradients of GPUs travel: beside the backward pass, with the bits of an exchange after it,
// and as a part of recorded steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "communicator_fixture.hpp"
#include "errors.hpp"
#include "gpus_of_the_test.hpp"
#include "tasuki/core/philox.hpp"
#include "tasuki/nn/batch_norm.hpp"
#include "tasuki/nn/function.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/cuda_loading/loader.hpp"
#include "tasuki/training/recording/step_runner.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t inputs = 12, hidden = 40, classes = 5, steps = 12;

// A function that passes values on, and calls `seen` in its backward pass.
Variable watched(const Variable& x, const std::function<void()>& seen) {
  class Watched final : public Function {
   public:
    explicit Watched(std::function<void()> seen) : seen_(std::move(seen)) {}
    const char* name() const override { return "watched"; }
    void backward(const Tensor& gradient, Gradients& gradients) override {
      seen_();
      gradients.add(0, gradient);
    }

   private:
    std::function<void()> seen_;
  };
  return Function::record(x.value(), {x}, [&] { return std::make_unique<Watched>(seen); });
}

// Layer `twice` is used twice, `never` nowhere.
class Net : public Module {
 public:
  Net() {
    add("first", first_);
    add("norm", norm_);
    add("twice", twice_);
    add("never", never_);
    add("last", last_);
    initialize(5);
  }
  // Calls `between` when the gradients of the later layers are complete.
  Variable loss(const Tensor& x, const Tensor& t, const std::function<void()>& between) {
    const Variable h = watched(norm_(first_(Variable(x))), between);
    return softmax_cross_entropy(last_(twice_(twice_(h))), t);
  }

 private:
  Linear first_{inputs, hidden};
  BatchNorm norm_{hidden, {.relu = true}};
  Linear twice_{hidden, hidden}, never_{hidden, hidden}, last_{hidden, classes};
};

struct Way {
  ExchangeSettings exchange{};
  GraphMode graph = GraphMode::off;
  bool is_on_cpu = false;
  std::string rule = "momentum_sgd";
  bool is_sharded = false, is_clipped = false;
};

class ExchangeOnGpus : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const testing::OwnGpu own = testing::own_gpu();
    if (!own.device) GTEST_SKIP() << own.reason_for_none;
    gpu_ = *own.device;
    const auto placement = create_communicator("naive");
    if (placement->size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
    if (!allows(GetParam(), placement->topology()))
      GTEST_SKIP() << GetParam() << " does not allow this placement of ranks";
    comm_ = create_communicator(
        GetParam(), {.device = gpu_, .gpu_is_shared = load_cuda_backend() < placement->size()});
  }

  struct Result {
    std::vector<float> weights, states;
    // The communicator, in the backward pass of each step that the host did and in which all ranks
    // had examples.
    std::vector<bool> was_busy;
    std::int64_t recordings = 0;
    std::int64_t t = 0;
    std::size_t state_bytes = 0;
  };

  // Steps with batches of the same size, in some of which the last rank has no examples.
  Result trained(const Way& way) const {
    Net net;
    if (!way.is_on_cpu) net.to(gpu_);
    const auto of_cpus = create_communicator("naive");
    const auto optimizer =
        create_multi_node_optimizer(create_optimizer(way.rule), way.is_on_cpu ? *of_cpus : *comm_);
    optimizer->set_exchange(way.exchange);
    optimizer->shard_states(way.is_sharded);
    optimizer->setup(net);
    if (way.is_clipped) optimizer->add_hook(gradient_clipping(0.5));
    Result result;
    result.state_bytes = optimizer->state_bytes();
    bool all_have_examples = true;
    const auto note_whether_busy = [&] {
      if (!all_have_examples) return;
      try {
        comm_->barrier();
        result.was_busy.push_back(false);
      } catch (const Error&) {
        result.was_busy.push_back(true);
      }
    };
    StepRunner runner({optimizer.get()}, {.graph = way.graph});
    for (std::uint64_t step = 0; step < steps; ++step) {
      all_have_examples = step % 4 != 3;
      const bool is_idle = !all_have_examples && comm_->rank() == comm_->size() - 1;
      const std::int64_t own = is_idle ? 0 : 6;
      RandomStream random(step, static_cast<std::uint64_t>(comm_->rank()));
      const Tensor x = Tensor::empty({own, inputs}), t = Tensor::empty({own}, DType::int32);
      for (float& value : x.span<float>()) value = random.normal();
      for (std::int32_t& label : t.span<std::int32_t>())
        label = static_cast<std::int32_t>(random.below(classes));
      Batch batch({{.name = "x", .values = x}, {.name = "t", .values = t, .is_target = true}},
                  std::vector<std::int64_t>(static_cast<std::size_t>(own)));
      const std::int64_t of_all = 6 * (comm_->size() - (all_have_examples ? 0 : 1));
      batch.set_global_size(of_all);
      Observation unused;
      runner.run(
          batch, unused,
          [&](const Batch& here, Observation&) {
            const auto loss = [&] { return net.loss(here["x"], here["t"], note_whether_busy); };
            const Variable found = optimizer->forward(loss, here.size());
            optimizer->update(optimizer->backward_and_exchange(found, here.size(), of_all));
          },
          "");
      if (step == 7) optimizer->flush();  // as before an evaluation
    }
    optimizer->flush();
    result.recordings = runner.recordings();
    result.t = optimizer->t();
    for (const std::string& name : optimizer->state_names()) {
      const Tensor state = optimizer->gather_state(name).to(Device::cpu());
      const auto of_all = state.span<float>();
      result.states.insert(result.states.end(), of_all.begin(), of_all.end());
    }
    const Tensor weights = optimizer->arena().values().to(Device::cpu());
    for (const Tensor& others : comm_->allgather(weights)) {
      const Tensor host = others.to(Device::cpu());
      EXPECT_EQ(std::memcmp(host.raw(), weights.raw(), weights.bytes()), 0);
    }
    const auto values = weights.span<float>();
    result.weights.assign(values.begin(), values.end());
    return result;
  }

  bool queues() const { return comm_->queues_exchanges(); }

  Device gpu_;
  std::unique_ptr<Communicator> comm_;
};

constexpr std::int64_t small = 1024;

TEST_P(ExchangeOnGpus, OverlapsWhereTheGpuQueuesIt) {
  Net net;
  net.to(gpu_);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm_);
  optimizer->set_exchange({.range_bytes = small});
  optimizer->setup(net);
  const GradientExchange& exchange = *optimizer->gradient_exchange();
  EXPECT_EQ(exchange.mode(), queues() ? ExchangeMode::overlapped : ExchangeMode::whole);
  EXPECT_EQ(exchange.ranges().size() > 5, queues());
}

TEST_P(ExchangeOnGpus, HasTheSameBitsDuringAndAfterTheBackwardPass) {
  const Result whole = trained({{.mode = ExchangeMode::whole, .range_bytes = small}});
  EXPECT_EQ(std::ranges::count(whole.was_busy, true), 0);
  const Result overlapped = trained({{.mode = ExchangeMode::overlapped, .range_bytes = small}});
  EXPECT_EQ(overlapped.weights, whole.weights);
  // Their order is learned in the first step.
  for (std::size_t i = 0; i < overlapped.was_busy.size(); ++i)
    EXPECT_EQ(overlapped.was_busy[i], queues() && i > 0) << "step " << i;
}

TEST_P(ExchangeOnGpus, IsAPartOfRecordedSteps) {
  if (!queues()) GTEST_SKIP() << GetParam() << " exchanges by way of the host";
  const ExchangeSettings overlapped{.mode = ExchangeMode::overlapped, .range_bytes = small};
  const Result plain = trained({overlapped}), recorded = trained({overlapped, GraphMode::on});
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(recorded.t, steps);
  EXPECT_GT(recorded.recordings, 0);
  EXPECT_LT(recorded.was_busy.size(), plain.was_busy.size()) << "steps were repeated";
  EXPECT_TRUE(recorded.was_busy.back()) << "the recording has no overlap";
}

// With its own communicator, so this one is free.
TEST_P(ExchangeOnGpus, IsOneStepBehindWithDoubleBuffers) {
  const ExchangeSettings late{.mode = ExchangeMode::double_buffered};
  const Result plain = trained({late}), cpu = trained({late, GraphMode::off, true});
  EXPECT_EQ(std::ranges::count(plain.was_busy, true), 0);
  EXPECT_EQ(plain.t, steps) << "the last ones are used, too";
  ASSERT_EQ(plain.weights.size(), cpu.weights.size());
  const std::vector<float> in_time = trained({}).weights;
  double difference = 0, of_late = 0;
  for (std::size_t i = 0; i < cpu.weights.size(); ++i) {
    difference = std::max<double>(difference, std::abs(plain.weights[i] - cpu.weights[i]));
    of_late = std::max<double>(of_late, std::abs(plain.weights[i] - in_time[i]));
  }
  EXPECT_LT(difference, 1e-5);
  EXPECT_GT(of_late, 1e-3);

  const Result recorded = trained({late, queues() ? GraphMode::on : GraphMode::automatic});
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(recorded.t, steps);
  EXPECT_EQ(recorded.recordings > 0, queues());
}

TEST_P(ExchangeOnGpus, SharesTheStatesOfTheOptimizer) {
  for (const bool is_clipped : {false, true}) {
    Way way{.rule = "adam", .is_clipped = is_clipped};
    const Result alone = trained(way);
    way.is_sharded = true;
    for (const GraphMode graph : {GraphMode::off, GraphMode::automatic}) {
      way.graph = graph;
      const Result shared = trained(way);
      EXPECT_EQ(shared.weights, alone.weights);
      EXPECT_EQ(shared.states, alone.states);
      EXPECT_LT(shared.state_bytes, alone.state_bytes);
      EXPECT_EQ(shared.recordings > 0, queues() && graph != GraphMode::off);
    }
  }
}

TEST_P(ExchangeOnGpus, RefusesToShareStatesThatAnUpdateNeedsAsAWhole) {
  Net net;
  net.to(gpu_);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("lamb"), *comm_);
  optimizer->shard_states(true);
  testing::expect_error(ErrorKind::usage, {"--shard-optimizer and --gpu", "LAMB"},
                        [&] { optimizer->setup(net); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExchangeOnGpus,
                         ::testing::Values("pure_nccl", "single_node", "hierarchical"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
