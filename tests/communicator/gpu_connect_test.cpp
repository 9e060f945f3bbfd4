// When GPUs are connected, when that fails, and what cannot run without them.
#include "communicator_fixture.hpp"
#include "gpus_of_the_test.hpp"
#include "tests/support/fake_gpu/fake_gpu.hpp"

namespace tasuki {
namespace {

const Device gpu = *testing::own_gpu().device;

TEST(PureNccl, ConnectsOnlyWhenNeeded) {
  const int before = testing::fake_groups_connected();
  const auto comm = create_communicator("pure_nccl", {.device = gpu});
  comm->barrier();
  comm->allreduce(Tensor::zeros({1}));
  comm->allocate(100, gpu);
  EXPECT_EQ(testing::fake_groups_connected(), before);
  comm->allreduce(Tensor::zeros({1}, DType::float32, gpu));
  comm->allreduce(Tensor::zeros({1}, DType::float32, gpu));
  EXPECT_EQ(testing::fake_groups_connected(), before + (comm->size() > 1 ? 1 : 0));
}

TEST(PureNccl, ReportsFailedIdOnEveryRank) {
  const auto comm = create_communicator("pure_nccl", {.device = gpu});
  if (comm->size() == 1) GTEST_SKIP() << "one rank needs no id";
  if (comm->rank() == 0) testing::fail_next_id("no network interface");
  try {
    comm->allreduce(Tensor::zeros({1}, DType::float32, gpu));
    ADD_FAILURE() << "connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_EQ(error.scope(), ErrorScope::every_rank);
    EXPECT_STREQ(error.what(), "no network interface");
  }
}

TEST(Kinds, CanBeRecordedUnlessRanksShareTheGpu) {
  const auto queues = [](const char* name, bool shared) {
    return create_communicator(name, {.device = gpu, .gpu_is_shared = shared})->queues_exchanges();
  };
  for (const char* name : {"pure_nccl", "auto", "dummy"}) {
    EXPECT_TRUE(queues(name, false)) << name;
    EXPECT_FALSE(queues(name, true)) << name;
  }
  for (const char* name : {"naive", "flat", "hierarchical", "non_cuda_aware"})
    EXPECT_FALSE(queues(name, false)) << name;
}

TEST(Kinds, ExplainMissingGpusOrNetwork) {
  for (const char* name : {"pure_nccl", "non_cuda_aware"}) {
    try {
      create_communicator(name);
      ADD_FAILURE() << name << " was created on CPUs";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_NE(std::string(error.what()).find("--gpu"), std::string::npos);
    }
  }
  EXPECT_THROW(create_communicator("flat", {.device = gpu,
                                            .wire_dtype = DType::float16,
                                            .algorithm = AllreduceAlgorithm::mpi}),
               Error);
  EXPECT_NE(communicator_help().find("pure_nccl"), std::string::npos);
}

}  // namespace
}  // namespace tasuki
