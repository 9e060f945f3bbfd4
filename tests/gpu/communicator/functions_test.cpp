// Functions between ranks on GPU arrays compute what they compute on CPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/functions/collectives.hpp"
#include "parallel/functions/messages.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tests/communicator/gpus_of_the_test.hpp"
#include "tests/support/weighted_sum.hpp"
#include "training/recording/step_runner.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

Tensor random_values(const Shape& shape, std::uint64_t seed) {
  const Tensor made = Tensor::empty(shape);
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

class FunctionsOnGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    const testing::OwnGpu own = testing::own_gpu();
    if (!own.device) GTEST_SKIP() << own.reason_for_none;
    device_ = *own.device;
    const bool is_shared = load_cuda_backend() < create_communicator("naive")->size();
    comm_ = create_communicator(is_shared ? "single_node" : "pure_nccl",
                                {.device = device_, .gpu_is_shared = is_shared});
  }

  Device device_ = Device::cpu();
  std::unique_ptr<Communicator> comm_;
};

// Calls every function on the communicator's device. Returns their results and the gradient of what
// they were computed from, on the host.
std::vector<Tensor> run_all(Communicator& comm, DType dtype) {
  const Device device = comm.options().device;
  const int rank = comm.rank(), size = comm.size();
  const auto seed = static_cast<std::uint64_t>(rank);
  const Variable x(random_values({2 * size + 1, 3}, seed).to(dtype).to(device), true);
  const std::vector<Variable> all = F::allgather(comm, x);
  std::vector<Variable> results = F::alltoall(comm, all);
  results.push_back(F::bcast(comm, x, size - 1));
  results.push_back(F::allreduce(comm, x));
  results.push_back(F::reduce_scatter(comm, x));
  results.push_back(F::scatter(comm, all));
  for (const Variable& each : F::gather(comm, x)) results.push_back(each);
  if (size > 1 && rank == 0) results.push_back(F::send({x, all[1]}, comm, 1));
  if (size > 1 && rank == 1)
    for (const Variable& each : F::recv_many(comm, 0)) results.push_back(each);
  std::vector<Tensor> found, weights;
  for (const Variable& result : results) {
    EXPECT_EQ(result.value().device(), device);
    found.push_back(result.value().to(Device::cpu()));
    const Tensor weight = random_values(result.shape(), found.size());
    weights.push_back(weight.to(result.value().dtype()).to(device));
  }
  testing::weighted_sum(results, weights).backward();
  EXPECT_EQ(x.grad().device(), device);
  found.push_back(x.grad().to(Device::cpu()));
  return found;
}

TEST_F(FunctionsOnGpus, MatchTheCpu) {
  const auto on_cpu = create_communicator("naive");
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const std::vector<Tensor> found = run_all(*comm_, dtype);
    // Graphs on CPUs add up gradients in float32 only; the values are those that 16 bits hold.
    const std::vector<Tensor> expected = run_all(*on_cpu, DType::float32);
    ASSERT_EQ(found.size(), expected.size());
    const float tolerance = dtype == DType::float32 ? 1e-5F : 0.1F;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].shape(), expected[i].shape());
      const Tensor values = found[i].to(DType::float32);
      for (std::int64_t j = 0; j < values.count(); ++j)
        ASSERT_NEAR(values.data<float>()[j], expected[i].data<float>()[j],
                    tolerance * std::max(1.0F, std::abs(expected[i].data<float>()[j])))
            << name_of(dtype) << ", value " << i << ", element " << j;
    }
  }
}

// Values that pass through the host cannot be replayed; sums that a GPU does itself can.
TEST_F(FunctionsOnGpus, AreRecordedOnlyWithoutHostTransfers) {
  for (const bool by_host : {true, false}) {
    Linear layer(3, 3);
    layer.initialize(1);
    layer.to(device_);
    const auto optimizer = create_optimizer("sgd");
    optimizer->setup(layer);
    StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
    const Tensor x = random_values({4, 3}, 2).to(device_);
    const auto loss = [&](const Tensor& values) {
      const Variable y = by_host ? F::bcast(*comm_, layer(Variable(values)))
                                 : F::allreduce(*comm_, layer(Variable(values)));
      return F::mean_squared_error(y, values);
    };
    for (int step = 0; step < 5; ++step) {
      Batch batch({{.name = "x", .values = x}}, {0, 1, 2, 3});
      batch.set_global_size(4);
      Observation unused;
      runner.run(
          batch, unused,
          [&](const Batch& here, Observation&) {
            const Variable found = optimizer->forward([&] { return loss(here["x"]); }, 4);
            optimizer->update(optimizer->backward_and_exchange(found, 4, 4));
          },
          "");
    }
    EXPECT_EQ(runner.recordings() > 0, !by_host && comm_->queues_exchanges())
        << runner.why_not_recorded();
  }
}

}  // namespace
}  // namespace tasuki
