// Trains a small network on the ranks' GPUs, for tests of how gradients travel.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/normalization.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/multi_node_batch_norm.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tensor/recorder.hpp"
#include "tests/communicator/communicator_fixture.hpp"
#include "tests/communicator/gpus_of_the_test.hpp"
#include "tests/support/watched.hpp"
#include "training/recording/step_runner.hpp"

namespace tasuki::testing {

constexpr std::int64_t inputs = 12, hidden = 40, classes = 5;

// Layer `twice` is used twice, `never` nowhere.
class ExchangedNet : public Module {
 public:
  ExchangedNet() {
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
    const Variable y = twice_(twice_(h));
    return functions::softmax_cross_entropy(last_(added_ ? (*added_)(y) : y), t);
  }
  // Adds a layer before the last one.
  void grow() {
    added_ = std::make_unique<Linear>(hidden, hidden);
    added_->initialize(6);
    added_->to(device());
    add("added", *added_);
  }

 private:
  Linear first_{inputs, hidden};
  BatchNorm norm_{hidden, {.relu = true}};
  Linear twice_{hidden, hidden}, never_{hidden, hidden}, last_{hidden, classes};
  std::unique_ptr<Linear> added_;
};

// Where the host is in a step that it does.
enum class Moment { forward, backward, update };

struct Way {
  ExchangeSettings exchange{};
  GraphMode graph = GraphMode::off;
  bool is_on_cpu = false;
  std::string rule = "momentum_sgd";
  bool is_sharded = false, is_clipped = false;
  bool syncs_norm = false, finds_busy = true;
  DType wire_dtype = DType::float32;
  std::uint64_t steps = 12;
  // Of each rank, in a step.
  std::function<std::int64_t(std::uint64_t)> examples = [](std::uint64_t) { return 6; };
  // Before a step.
  std::function<void(ExchangedNet&, Optimizer&, std::uint64_t)> change = nullptr;
  std::function<void(Moment)> seen = [](Moment) {};
};

// The parameter: the communicator's name.
class ExchangeFixture : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const OwnGpu own = own_gpu();
    if (!own.device) GTEST_SKIP() << own.reason_for_none;
    gpu_ = *own.device;
    const auto placement = create_communicator("naive");
    if (placement->size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
    if (!allows(GetParam(), placement->topology()))
      GTEST_SKIP() << GetParam() << " does not allow this placement of ranks";
    comm_ = create_for(DType::float32);
  }

  std::unique_ptr<Communicator> create_for(DType wire_dtype) const {
    const int ranks = create_communicator("naive")->size();
    return create_communicator(
        GetParam(),
        {.device = gpu_, .wire_dtype = wire_dtype, .gpu_is_shared = load_cuda_backend() < ranks});
  }

  struct Result {
    std::vector<float> weights, states;
    // The communicator, in the backward pass of each step that the host did and in which all ranks
    // had examples; empty without Way::finds_busy.
    std::vector<bool> was_busy;
    std::int64_t recordings = 0;
    std::int64_t t = 0;
    std::size_t state_bytes = 0;
    std::string description;  // of the exchange
  };

  // In every fourth step the last rank has no examples.
  Result trained(const Way& way) const {
    ExchangedNet net;
    if (!way.is_on_cpu) net.to(gpu_);
    const auto own = way.is_on_cpu                      ? create_communicator("naive")
                     : way.wire_dtype != DType::float32 ? create_for(way.wire_dtype)
                                                        : nullptr;
    Communicator& comm = own ? *own : *comm_;
    if (way.syncs_norm) convert_to_multi_node_batch_norm(net, comm);
    const auto optimizer = create_multi_node_optimizer(create_optimizer(way.rule), comm);
    optimizer->set_exchange(way.exchange);
    optimizer->states().shard(way.is_sharded);
    optimizer->setup(net);
    if (way.is_clipped) optimizer->add_hook(gradient_clipping(0.5));
    Result result;
    result.state_bytes = optimizer->states().bytes();
    result.description = optimizer->step_exchange().gradient_exchange()->describe();
    bool all_have_examples = true;
    const auto note_whether_busy = [&] {
      way.seen(Moment::backward);
      if (!all_have_examples || !way.finds_busy) return;
      try {
        comm.barrier();
        result.was_busy.push_back(false);
      } catch (const Error&) {
        result.was_busy.push_back(true);
      }
    };
    StepRunner runner({optimizer.get()}, {.graph = way.graph});
    for (std::uint64_t step = 0; step < way.steps; ++step) {
      if (way.change) way.change(net, *optimizer, step);
      all_have_examples = step % 4 != 3;
      const bool is_idle = !all_have_examples && comm.rank() == comm.size() - 1;
      const std::int64_t each = way.examples(step), here = is_idle ? 0 : each;
      RandomStream random(step, static_cast<std::uint64_t>(comm.rank()));
      const Tensor x = Tensor::empty({here, inputs}), t = Tensor::empty({here}, DType::int32);
      for (float& value : x.span<float>()) value = random.normal();
      for (std::int32_t& label : t.span<std::int32_t>())
        label = static_cast<std::int32_t>(random.below(classes));
      Batch batch({{.name = "x", .values = x}, {.name = "t", .values = t, .is_target = true}},
                  std::vector<std::int64_t>(static_cast<std::size_t>(here)));
      const std::int64_t of_all = each * (comm.size() - (all_have_examples ? 0 : 1));
      batch.set_global_size(of_all);
      Observation unused;
      runner.run(
          batch, unused,
          [&](const Batch& placed, Observation&) {
            const auto loss = [&] {
              way.seen(Moment::forward);
              return net.loss(placed["x"], placed["t"], note_whether_busy);
            };
            const Variable found = optimizer->forward(loss, placed.size());
            const auto examples = optimizer->backward_and_exchange(found, placed.size(), of_all);
            way.seen(Moment::update);
            optimizer->update(examples);
          },
          "");
      if (step == 7) optimizer->flush();  // as before an evaluation
    }
    optimizer->flush();
    result.recordings = runner.recordings();
    result.t = optimizer->t();
    for (const std::string& name : optimizer->states().names()) {
      const Tensor state = optimizer->states().gather(name).to(Device::cpu());
      const auto of_all = state.span<float>();
      result.states.insert(result.states.end(), of_all.begin(), of_all.end());
    }
    const Tensor weights = optimizer->arena().values().to(Device::cpu());
    for (const Tensor& others : comm.allgather(weights)) {
      const Tensor host = others.to(Device::cpu());
      EXPECT_EQ(std::memcmp(host.raw(), weights.raw(), weights.bytes()), 0);
    }
    const auto values = weights.span<float>();
    result.weights.assign(values.begin(), values.end());
    return result;
  }

  // The same with steps that are recorded if possible, which fails on the last rank.
  Result trained_without_recordings(Way way, Moment failing) const {
    const bool fails = comm_->rank() == comm_->size() - 1;
    int failures = 0;
    way.graph = GraphMode::automatic;
    way.finds_busy = false;  // the others go on
    way.seen = [&](Moment seen) {
      const Recorder* const recorder = current_recorder();
      if (seen != failing || !fails || recorder == nullptr || !recorder->is_recording()) return;
      ++failures;
      fail(ErrorKind::unavailable, "this rank cannot record");
    };
    Result result = trained(way);
    EXPECT_EQ(failures, fails ? 1 : 0);
    EXPECT_EQ(result.recordings, 0);
    return result;
  }

  bool queues() const { return comm_->queues_exchanges(); }

  Device gpu_;
  std::unique_ptr<Communicator> comm_;
};

// Between two vectors of the same length.
inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace tasuki::testing
