// What the communicators do with values on GPUs: fake ones, which show every step of each algorithm
// but NCCL's and CUDA's own, or this machine's (gpus_of_the_test.hpp).
#include <algorithm>

#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator_fixture.hpp"
#include "gpus_of_the_test.hpp"
#include "nn/connection.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki {
namespace {

// Small sizes, so that few values make many chunks and copies.
constexpr TransferSizes small_sizes{.message_chunk = 1024, .gpu_copy = 4096};

// The sum of the numbers of this many ranks.
std::int64_t sum_of_ranks(std::int64_t ranks) {
  return ranks * (ranks - 1) / 2;
}

class OnGpus : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const testing::OwnGpu own = testing::own_gpu();
    if (!own.device) GTEST_SKIP() << own.reason_for_none;
    gpu = *own.device;
    const auto placement = create_communicator("naive");
    if (!allows(GetParam(), placement->topology()))
      GTEST_SKIP() << GetParam() << " does not allow this placement of ranks";
    comm_ = create_communicator(GetParam(), {.device = gpu, .sizes = small_sizes});
  }

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  Tensor allocated(std::int64_t count) {
    return {comm_->allocate(static_cast<std::size_t>(count) * 4, gpu), 0, {count}, DType::float32};
  }
  // Integers whose sums are exact in float32.
  static void fill(const Tensor& values, int rank) {
    const Tensor host = Tensor::empty({values.count()});
    for (std::int64_t i = 0; i < host.count(); ++i)
      host.data<float>()[i] = static_cast<float>(i % 97 + rank);
    values.copy_from(host);
  }
  void expect_sums(const Tensor& values) const {
    const Tensor host = values.to(Device::cpu());
    for (std::int64_t i = 0; i < host.count(); ++i)
      ASSERT_EQ(host.data<float>()[i], static_cast<float>(i % 97 * size() + sum_of_ranks(size())))
          << "element " << i << " of " << host.count();
  }

  Device gpu;
  std::unique_ptr<Communicator> comm_;
};

TEST_P(OnGpus, SumsOfAnySize) {
  for (const std::int64_t count : {1, 2, 7, 31, 33, 255, 1000, 4097, 30'011}) {
    for (const Tensor& arena : {allocated(count), Tensor::zeros({count}, DType::float32, gpu)}) {
      const std::vector<GradientView::Segment> parts{{0, count / 2},
                                                     {count / 2, count - count / 2}};
      fill(arena, rank());
      comm_->sum_gradients({arena, parts});
      expect_sums(arena);
    }
  }
}

TEST_P(OnGpus, AllocatedMemoryIsZeroed) {
  const Tensor host = allocated(1000).to(Device::cpu());
  for (const float value : host.span<float>()) ASSERT_EQ(value, 0);
}

TEST_P(OnGpus, RepeatedSumsReuseTheStaging) {
  const Tensor arena = allocated(5000);
  const std::vector<GradientView::Segment> whole{{0, 5000}};
  for (int turn = 0; turn < 4; ++turn) {
    fill(arena, rank());
    comm_->sum_gradients({arena, whole});
    expect_sums(arena);
  }
}

TEST_P(OnGpus, BucketsInTheBackground) {
  const std::int64_t count = 20'000;
  const Tensor arena = allocated(count);
  fill(arena, rank());
  std::vector<std::unique_ptr<PendingExchange>> pending;
  const std::vector<GradientView::Segment> bucket{{0, count / 4}};
  for (int part = 3; part >= 0; --part)
    pending.push_back(comm_->start_sum_gradients(
        {arena.slice(part * count / 4, (part + 1) * count / 4), bucket}));
  if (size() > 1) {
    EXPECT_THROW(comm_->allreduce(Tensor::zeros({1})), Error);
  }
  for (const auto& exchange : pending) exchange->wait();
  EXPECT_THROW(pending.front()->wait(), Error);
  expect_sums(arena);
  comm_->start_sum_gradients({arena, bucket});  // the destructor waits
  comm_->allreduce(Tensor::zeros({1}));
}

TEST_P(OnGpus, AllreduceOfTypesAndOperations) {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                           DType::int32, DType::int64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      const Tensor host = Tensor::full({3, 11}, rank() + 1, DType::float32).to(type);
      const Tensor values = host.to(gpu);
      comm_->allreduce(values, op);
      const double expected = op == ReduceOp::sum   ? size() * (size() + 1) / 2
                              : op == ReduceOp::max ? size()
                                                    : 1;
      const Tensor found = values.to(Device::cpu()).to(DType::float64);
      for (const double value : found.span<double>())
        ASSERT_EQ(value, expected) << name_of(type) << ' ' << name_of(op);
    }
  }
}

TEST_P(OnGpus, BroadcastsOfDataAndArrays) {
  const Tensor parameters = allocated(777);
  fill(parameters, 5 * (rank() + 1));
  comm_->bcast_data(parameters);
  const Tensor host = parameters.to(Device::cpu());
  for (std::int64_t i = 0; i < host.count(); ++i)
    ASSERT_EQ(host.data<float>()[i], static_cast<float>(i % 97 + 5));

  const Tensor own = Tensor::full({4}, rank(), DType::float32, gpu);
  const auto gathered = comm_->allgather(own);
  for (int other = 0; other < size(); ++other) {
    EXPECT_EQ(gathered[static_cast<std::size_t>(other)].device(), gpu);
    EXPECT_EQ(gathered[static_cast<std::size_t>(other)].slice(0, 1).item(), other);
  }
}

TEST_P(OnGpus, HostValuesStillWork) {
  const Tensor host = Tensor::full({100}, rank());
  comm_->allreduce(host);
  EXPECT_EQ(host.data<float>()[99], static_cast<float>(sum_of_ranks(size())));
}

TEST_P(OnGpus, RejectDifferentSizesOnAllRanks) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const std::int64_t count = rank() == 0 ? 3 : 4;
  const std::vector<GradientView::Segment> whole{{0, count}};
  try {
    comm_->sum_gradients({Tensor::zeros({count}, DType::float32, gpu), whole});
    ADD_FAILURE() << "the sum went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::disagreement);
  }
}

TEST_P(OnGpus, SplitKeepsTheDevice) {
  const auto half = comm_->split(rank() % 2, rank());
  const Tensor values = Tensor::full({100}, 1, DType::float32, gpu);
  half->allreduce(values);
  EXPECT_EQ(values.slice(99, 100).item(), half->size());
}

// For example of a file that only rank 0 has loaded.
TEST_P(OnGpus, OptimizerBroadcastsRankZerosShapesAndWeights) {
  Linear layer(std::nullopt, 3);
  layer.initialize(static_cast<std::uint64_t>(rank()));
  layer.to(gpu);
  Parameter& weights = *layer.all_parameters()[0].parameter;
  if (rank() == 0) weights.set_shape({3, 5});
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm_);
  optimizer->setup(layer);
  ASSERT_EQ(weights.shape(), (Shape{3, 5}));
  Linear expected(5, 3);
  expected.initialize(0);
  const Tensor host = weights.value().to(Device::cpu());
  EXPECT_TRUE(std::ranges::equal(host.span<float>(),
                                 expected.parameters()[0].parameter->value().span<float>()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnGpus,
                         ::testing::Values("naive", "flat", "single_node", "hierarchical",
                                           "two_dimensional", "non_cuda_aware", "pure_nccl", "auto",
                                           "double"),
                         name_of_parameter);

// Without several nodes, all ranks behave as if each were on a separate node.
TEST(BetweenNodes, PassesValuesThroughTheHostInChunks) {
  const testing::OwnGpu own = testing::own_gpu();
  if (!own.device) GTEST_SKIP() << own.reason_for_none;
  const auto world = create_communicator("naive");
  const int ranks = world->size();
  GpuExchange exchange(*own.device, {.sizes = small_sizes});
  for (const std::int64_t count : {1, 33, 1000, 30'011, 30'011}) {
    const Tensor host = Tensor::empty({count});
    for (std::int64_t i = 0; i < count; ++i)
      host.data<float>()[i] = static_cast<float>(i % 97 + world->rank());
    const Tensor values = host.to(*own.device);
    constexpr bool staged = true;
    exchange.in_order(
        [&] { exchange.between_nodes(values, ReduceOp::sum, MPI_COMM_WORLD, {}, staged); });
    const Tensor sums = values.to(Device::cpu());
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(sums.data<float>()[i], static_cast<float>(i % 97 * ranks + sum_of_ranks(ranks)))
          << "element " << i << " of " << count;
  }
}

class RoundingOnGpus : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundingOnGpus, DoesNotOverflow) {
  const testing::OwnGpu own = testing::own_gpu();
  if (!own.device) GTEST_SKIP() << own.reason_for_none;
  const Device gpu = *own.device;
  if (!allows(GetParam(), create_communicator("naive")->topology()))
    GTEST_SKIP() << GetParam() << " does not allow this placement of ranks";
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const auto comm = create_communicator(GetParam(), {.device = gpu, .wire_dtype = type});
    const std::int64_t count = 1001;
    const Tensor host = Tensor::empty({count});
    // Sums over 1000 examples of gradients up to 200: 200 000 a rank.
    for (std::int64_t i = 0; i < count; ++i)
      host.data<float>()[i] = static_cast<float>(200 * (i + comm->rank()));
    const Tensor arena = host.to(gpu);
    const std::vector<GradientView::Segment> whole{{0, count}};
    comm->sum_gradients({arena, whole, 1000.0 * comm->size()});
    const Tensor sums = arena.to(Device::cpu());
    const int ranks = comm->size();
    for (std::int64_t i = 0; i < count; ++i) {
      const double exact = 200.0 * static_cast<double>(i * ranks + sum_of_ranks(ranks));
      ASSERT_NEAR(sums.data<float>()[i], exact, exact * 0.02) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RoundingOnGpus,
                         ::testing::Values("naive", "flat", "single_node", "hierarchical",
                                           "two_dimensional", "non_cuda_aware", "pure_nccl"),
                         name_of_parameter);

}  // namespace
}  // namespace tasuki
