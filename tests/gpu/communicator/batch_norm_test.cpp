// Ranks on GPUs that share a batch learn what one rank learns on a CPU from the whole of it, in
// recorded steps too where ranks have a GPU each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/multi_node_batch_norm.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tests/communicator/gpus_of_the_test.hpp"
#include "training/recording/step_runner.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr std::int64_t classes = 3, channels = 6;

class Net : public Module {
 public:
  Net() {
    add("images", images_);
    add("l1", l1_);
    add("rows", rows_);
    add("l2", l2_);
    initialize(5);
  }
  // x: N x channels x 2 x 3
  Variable loss(const Tensor& x, const Tensor& t) {
    return F::softmax_cross_entropy(l2_(rows_(l1_(F::flatten(images_(Variable(x)))))), t);
  }

 private:
  BatchNorm images_{channels};
  Linear l1_{channels * 6, 10};
  BatchNorm rows_{10, {.relu = true}};
  Linear l2_{10, classes};
};

void expect_near(const Tensor& found, const Tensor& expected, const std::string& what) {
  const Tensor host = found.to(Device::cpu());
  for (std::int64_t i = 0; i < host.count(); ++i)
    ASSERT_NEAR(host.data<float>()[i], expected.data<float>()[i],
                1e-4 * std::max(1.0F, std::abs(expected.data<float>()[i])))
        << what << ", element " << i;
}

TEST(MultiNodeBatchNormOnGpus, MatchesTheWholeBatchOnACpu) {
  const testing::OwnGpu own = testing::own_gpu();
  if (!own.device) GTEST_SKIP() << own.reason_for_none;
  const int ranks = create_communicator("naive")->size();
  const bool is_shared = load_cuda_backend() < ranks;
  const auto comm = create_communicator(is_shared ? "single_node" : "pure_nccl",
                                        {.device = *own.device, .gpu_is_shared = is_shared});
  const int rank = comm->rank(), size = comm->size();
  Net shared, alone;
  shared.to(*own.device);
  EXPECT_EQ(convert_to_multi_node_batch_norm(shared, *comm), 2U);
  const auto many = create_multi_node_optimizer(create_optimizer("lamb"), *comm);
  const auto one = create_optimizer("lamb");
  many->setup(shared);
  one->setup(alone);
  RandomStream random(8);
  StepRunner runner({many.get()}, {.graph = GraphMode::automatic});
  for (const std::int64_t batch : {12, 12, 12, 12, 12, 1, 9, 12, 12}) {
    const Tensor x = Tensor::empty({batch, channels, 2, 3});
    for (float& value : x.span<float>()) value = 2 + random.normal();
    const Tensor t = Tensor::empty({batch}, DType::int32);
    for (std::int32_t& label : t.span<std::int32_t>())
      label = static_cast<std::int32_t>(random.below(classes));
    // The last rank has a third of the batch and what the others leave.
    const std::int64_t share = size == 1 ? batch : batch * 2 / (3 * size);
    const std::int64_t begin = rank * share, end = rank == size - 1 ? batch : begin + share;
    Batch part({{.name = "x", .values = x.slice(begin, end)},
                {.name = "t", .values = t.slice(begin, end), .is_target = true}},
               std::vector<std::int64_t>(static_cast<std::size_t>(end - begin)));
    part.set_global_size(batch);
    Observation unused;
    runner.run(
        part, unused,
        [&](const Batch& here, Observation&) {
          const Variable loss =
              many->forward([&] { return shared.loss(here["x"], here["t"]); }, here.size());
          many->update(many->backward_and_exchange(loss, here.size(), batch));
        },
        "");
    one->update([&] { return alone.loss(x, t); }, batch);
  }
  EXPECT_EQ(runner.recordings() > 0, comm->queues_exchanges()) << runner.why_not_recorded();
  for (std::size_t i = 0; i < alone.parameters().size(); ++i)
    expect_near(shared.parameters()[i].parameter->value(), alone.parameters()[i].parameter->value(),
                alone.parameters()[i].path);
  for (std::size_t i = 0; i < alone.buffers().size(); ++i)
    if (alone.buffers()[i].tensor->dtype() == DType::float32)
      expect_near(*shared.buffers()[i].tensor, *alone.buffers()[i].tensor, alone.buffers()[i].path);
}

}  // namespace
}  // namespace tasuki
