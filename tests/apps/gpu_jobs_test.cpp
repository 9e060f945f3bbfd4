// train_mnist with --gpu and fake GPUs: which rank gets which GPU, what is refused, and the
// messages.

#include <map>

#include "core/error.hpp"
#include "tests/support/patience.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class GpuJobs : public TrainMnist {
 protected:
  // A dry run, which prints where each rank would run.
  Finished job(int np, int gpus, std::vector<std::string> flags) {
    flags.push_back("--dry-run");
    return run_program(mpirun(np, program("result", flags)), 60,
                       {{"TASUKI_CUDA_LIBRARY", FAKE_LIBRARY},
                        {"LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER},
                        {"FAKE_CUDA_DEVICES", std::to_string(gpus)}});
  }
  void expect_refused(const Finished& job, const std::vector<std::string>& parts, ErrorKind kind) {
    EXPECT_FALSE(job.timed_out) << job.all();
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(job.out, "");
    for (const std::string& part : parts)
      EXPECT_EQ(count_of(job.err, part), 1) << part << "\n--- in ---\n" << job.err;
  }
};

TEST_F(GpuJobs, ShowRanksAndGpusInTheBanner) {
  for (const int np : {1, 2, 4}) {
    const Finished found = job(np, 4, {"--gpu"});
    ASSERT_EQ(found.exit_code, 0) << found.all();
    for (int rank = 0; rank < np; ++rank)
      EXPECT_EQ(count_of(found.out, "cuda:" + std::to_string(rank) + " Fake GPU "), 1)
          << found.all();
    EXPECT_EQ(count_of(found.out, "pure_nccl: fake NCCL"), 1) << found.all();
  }
}

TEST_F(GpuJobs, RejectMoreRanksThanGpusWithATable) {
  const Finished found = job(4, 2, {"--gpu"});
  expect_refused(found,
                 {"2 GPU(s) for its 4 ranks\nrank  host", "rank in node  wanted GPU  GPUs there\n",
                  ": --share-gpu puts several ranks on one GPU"},
                 ErrorKind::config);
  EXPECT_EQ(count_of(found.err, "not available"), 2) << found.err;
  EXPECT_LT(found.seconds, 20 * patience());
}

TEST_F(GpuJobs, AllowAnExplicitNumberForOneRankPerNode) {
  const Finished alone = job(1, 2, {"--gpu", "1"});
  EXPECT_EQ(alone.exit_code, 0) << alone.all();
  EXPECT_EQ(count_of(alone.out, "cuda:1 Fake GPU"), 1) << alone.all();
  expect_refused(job(2, 2, {"--gpu", "1"}), {"--gpu 1 names one GPU"}, ErrorKind::config);
  expect_refused(job(1, 2, {"--gpu", "2"}), {"--gpu 2: rank 0 sees 2 GPU(s)"}, ErrorKind::config);
}

TEST_F(GpuJobs, ShareGpusOnRequest) {
  const Finished four = job(4, 2, {"--gpu", "--share-gpu"});
  EXPECT_EQ(four.exit_code, 0) << four.all();
  for (const char* device : {"cuda:0 Fake GPU (2 ranks)", "cuda:1 Fake GPU (2 ranks)"})
    EXPECT_EQ(count_of(four.out, device), 2) << four.all();
  const Finished two = job(2, 2, {"--gpu", "0", "--share-gpu"});
  EXPECT_EQ(count_of(two.out, "cuda:0 Fake GPU (2 ranks)"), 2) << two.all();
  const Finished one = job(1, 1, {"--gpu", "--share-gpu"});
  EXPECT_EQ(count_of(one.out, "cuda:0 Fake GPU"), 1) << one.all();
  EXPECT_EQ(count_of(one.out, "ranks)"), 0) << one.all();
  expect_refused(job(2, 2, {"--share-gpu"}), {"--share-gpu is for ranks on GPUs"},
                 ErrorKind::usage);
}

TEST_F(GpuJobs, RejectUnsuitableCommunicatorsAndWireTypes) {
  expect_refused(job(2, 2, {"--communicator", "pure_nccl"}),
                 {"the communicator pure_nccl needs --gpu"}, ErrorKind::config);
  expect_refused(job(2, 2, {"--communicator", "non_cuda_aware"}),
                 {"the communicator non_cuda_aware needs --gpu"}, ErrorKind::config);
  expect_refused(
      job(2, 2, {"--gpu", "--communicator", "flat", "--wire-dtype", "fp16", "--allreduce", "mpi"}),
      {"MPI_Allreduce sends float32 as it is"}, ErrorKind::config);
  const Finished sixteen = job(2, 2, {"--gpu", "--wire-dtype", "bf16"});
  EXPECT_EQ(sixteen.exit_code, 0) << sixteen.all();
  EXPECT_EQ(count_of(sixteen.out, "bfloat16 on the wire"), 1) << sixteen.all();
}

TEST_F(GpuJobs, ShardStatesWhenUpdatesAreLocal) {
  EXPECT_EQ(job(2, 2, {"--gpu", "--shard-optimizer"}).exit_code, 0);
  expect_refused(job(2, 2, {"--gpu", "--shard-optimizer", "--optimizer", "lamb"}),
                 {"--shard and --gpu: an update by LAMB needs the states of all"},
                 ErrorKind::usage);
}

TEST_F(GpuJobs, ChooseAlgorithmsOnlyOnGpus) {
  for (const char* flag : {"--autotune", "--deterministic"})
    EXPECT_EQ(job(1, 1, {"--gpu", flag}).exit_code, 0) << flag;
  expect_refused(job(2, 2, {"--gpu", "--autotune", "--deterministic"}),
                 {"--autotune and --deterministic: algorithms chosen by timing"}, ErrorKind::usage);
  expect_refused(job(2, 2, {"--autotune"}),
                 {"--autotune chooses algorithms on GPUs, and this run has none; add --gpu"},
                 ErrorKind::usage);
  expect_refused(job(1, 1, {"--deterministic"}),
                 {"--deterministic chooses algorithms on GPUs", "--conv direct"}, ErrorKind::usage);
}

TEST_F(GpuJobs, SupportSeveralCommunicators) {
  for (const char* name : {"flat", "hierarchical", "non_cuda_aware"}) {
    const Finished found = job(2, 1, {"--gpu", "--share-gpu", "--communicator", name});
    EXPECT_EQ(found.exit_code, 0) << name << '\n' << found.all();
  }
}

}  // namespace
}  // namespace tasuki::testing
