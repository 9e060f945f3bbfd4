// train_mnist as users start it: every communicator, any number of ranks, virtual shards, resume.

#include <map>

#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

const std::vector<std::string> momentum = {"--optimizer", "momentum_sgd", "--log-every", "1"};

class Communicators : public TrainMnist, public ::testing::WithParamInterface<int> {
 protected:
  // Losses of `steps` steps, relative to naive's.
  void expect_losses_of_naive(const std::string& optimizer, std::size_t steps, double tolerance) {
    const std::vector<std::string> flags = {
        "--optimizer", optimizer, "--log-every",      "1",
        "--batchsize", "16",      "--max-iterations", std::to_string(steps)};
    const auto losses = [&](const std::string& name) {
      const auto log =
          log_of(GetParam(), optimizer + "-" + name, with(flags, {"--communicator", name}));
      return values_of(log, "main/loss");
    };
    const auto naive = losses("naive");
    ASSERT_EQ(naive.size(), steps);
    EXPECT_LT(naive.back(), naive.front());
    for (const std::string name :
         {"flat", "single_node", "hierarchical", "two_dimensional", "auto"}) {
      SCOPED_TRACE(name);
      expect_near(losses(name), naive, tolerance);
    }
  }
};

TEST_P(Communicators, TrainLikeNaive) {
  expect_losses_of_naive("momentum_sgd", 12, 1e-4);
}

// Adam divides by gradients' sizes, and so makes more of what rounding does to small ones.
TEST_P(Communicators, TrainLikeNaiveWithAdam) {
  expect_losses_of_naive("adam", 10, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Communicators, ::testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return "np" + std::to_string(info.param); });

TEST_F(TrainMnist, DoesNotCommunicateWithDummy) {
  const auto log = log_of(2, "dummy", {"--communicator", "dummy", "--epoch", "1", "-b", "16"});
  EXPECT_EQ(log.size(), 1u);
}

// The same losses to the last digit, and snapshots for each other.
TEST_F(TrainMnist, SharesWeightsWithinANode) {
  const std::vector<std::string> flags = {"--batchsize", "16",          "--log-every",
                                          "1",           "--clip-norm", "1"};
  const auto said = [](const Finished& job, const std::string& text) {
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_NE(job.out.find("\nNode weights: " + text + "\n"), std::string::npos) << job.out;
  };
  const auto run_with = [&](const std::string& out, const std::vector<std::string>& more) {
    return run(3, out, with(with(flags, {"--epoch", "1"}), more));
  };
  said(run_with("shared", {}), "one set for the ranks of a node");
  said(run_with("private", {"--node-weights", "private"}), "one set per rank");
  said(run_with("flat", {"--communicator", "flat"}), "one set per rank (communicator flat)");
  said(run_with("both", {"--shard-optimizer"}), "one set for the ranks of a node");
  said(run_with("all", {"--shard", "gradients"}), "one set for the ranks of a node");
  const auto losses = [&](const std::string& out) { return values_of(read_log(out), "main/loss"); };
  EXPECT_EQ(losses("shared").size(), 10u);
  EXPECT_EQ(losses("shared"), losses("private"));
  EXPECT_EQ(losses("both"), losses("private"));
  EXPECT_EQ(losses("all"), losses("private"));

  const auto continued = [&](const std::string& from, const std::string& weights) {
    const std::string out = from + "-" + weights;
    return values_of(
        log_of(3, out,
               with(flags, {"--resume", folder / from, "--epoch", "2", "--node-weights", weights})),
        "main/loss");
  };
  const std::vector<double> on_private = continued("private", "private");
  ASSERT_EQ(on_private.size(), 20u);
  EXPECT_EQ(continued("shared", "shared"), on_private);
  EXPECT_EQ(continued("shared", "private"), on_private);
  EXPECT_EQ(continued("private", "shared"), on_private);
}

// The same losses to the last digit with less memory; and a snapshot for runs without the flag.
TEST_F(TrainMnist, ShardsStatesAndGradients) {
  const std::vector<std::string> flags = {"--global-batch", "48", "--shards", "6",
                                          "--log-every",    "1"};
  const auto two_epochs = with(flags, {"--epoch", "2"});
  const auto whole = log_of(3, "whole", two_epochs);
  for (const char* const what : {"states", "gradients"})
    EXPECT_EQ(values_of(log_of(3, "shared", with(two_epochs, {"--shard", what, "--overwrite"})),
                        "main/loss"),
              values_of(whole, "main/loss"))
        << what;
  const auto continued = [&](int ranks, const std::string& out, std::vector<std::string> more) {
    more.insert(more.end(), {"--resume", folder / "shared", "--epoch", "3"});
    return values_of(log_of(ranks, out, with(flags, more)), "main/loss");
  };
  const std::vector<double> without = continued(3, "without", {});
  ASSERT_GT(without.size(), whole.size());
  EXPECT_EQ(continued(3, "with", {"--shard-optimizer"}), without);
  EXPECT_EQ(continued(3, "with-gradients", {"--shard", "gradients"}), without);
  expect_near(continued(2, "on-two", {"--shard", "gradients"}), without, 1e-3);

  const auto dry_run = [&](const std::vector<std::string>& more) {
    return run(3, "dry", with({"--dry-run", "--node-weights", "private"}, more)).out;
  };
  EXPECT_NE(dry_run({}).find(" 0.2 MB optimizer state"), std::string::npos);
  const std::string shared = dry_run({"--shard-optimizer"});
  EXPECT_NE(shared.find(" 0.1 MB optimizer state"), std::string::npos) << shared;
  EXPECT_NE(shared.find("each rank with the states of its part"), std::string::npos) << shared;
  // The first layer has most of the weights.
  const std::string divided = dry_run({"--shard", "gradients"});
  EXPECT_NE(divided.find("and all gradients (two ranges of them and its part would be as large)"),
            std::string::npos)
      << divided;
}

// Rounded copies of the weights, beside what else ranks keep of them.
TEST_F(TrainMnist, Bfloat16GoesWithAllThatRanksExchangeAndKeep) {
  const auto flags = with(momentum, {"--batchsize", "16", "--epoch", "1"});
  std::string said;
  const auto losses = [&](const std::string& out, const std::vector<std::string>& more) {
    const Finished job = run(3, out, with(flags, more));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    said = job.out;
    return values_of(read_log(out), "main/loss");
  };
  const auto exact = losses("fp32", {}), rounded = losses("bf16", {"--dtype", "bf16"});
  ASSERT_EQ(exact.size(), 10u);
  expect_near(rounded, exact, 0.02);
  EXPECT_NE(rounded, exact);
  const std::vector<std::string> of_private = {
      "--dtype", "bf16", "--node-weights", "private", "--check-replicas", "1"};
  EXPECT_EQ(losses("private", of_private), rounded);
  EXPECT_EQ(count_of(said, "\nReplicas: compared in every iteration, of 3 ranks\n"), 1) << said;
  EXPECT_EQ(losses("divided", {"--dtype", "bf16", "--shard", "gradients"}), rounded);
  EXPECT_EQ(losses("divided", with(of_private, {"--shard", "gradients"})), rounded);
  const auto sent =
      losses("sent", {"--dtype", "bf16", "--wire-dtype", "bf16", "--communicator", "naive"});
  EXPECT_EQ(count_of(said, "bfloat16 on the wire"), 1) << said;
  expect_near(sent, rounded, 0.01);
  EXPECT_NE(sent, rounded);
}

TEST_F(TrainMnist, DoesNotDependOnRanksWithVirtualShards) {
  const auto flags = with(momentum, {"--shards", "12", "--epoch", "2"});
  const auto one = log_of(1, "np1", with(flags, {"--batchsize", "48"}));
  ASSERT_EQ(one.size(), 20u);
  for (const int np : {2, 3, 4}) {
    SCOPED_TRACE(np);
    const auto log = log_of(np, "np" + std::to_string(np),
                            with(flags, {"--batchsize", std::to_string(48 / np)}));
    expect_near(values_of(log, "main/loss"), values_of(one, "main/loss"), 1e-4);
    // Sums in another order make weights that differ in their last bits.
    const auto found = values_of(log, "validation/main/accuracy");
    const auto expected = values_of(one, "validation/main/accuracy");
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t epoch = 0; epoch < found.size(); ++epoch)
      EXPECT_NEAR(found[epoch], expected[epoch], 2.5 / test_examples);
  }
}

TEST_F(TrainMnist, LearnsWithoutMpirun) {
  const Finished job = run_program(program("result", {"--epoch", "8", "--batchsize", "24"}));
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const auto accuracy = values_of(read_log("result"), "validation/main/accuracy");
  ASSERT_EQ(accuracy.size(), 8u);
  EXPECT_GT(accuracy.back(), 0.9);
  EXPECT_NE(job.out.find("Num process (COMM_WORLD): 1\n"), std::string::npos) << job.out;
}

// Linking CUDA, NCCL and cuDNN alone would cost each rank memory and a second of start-up.
// There is no launcher to remove it.
TEST_F(TrainMnist, LeavesNoSharedMemoryWithoutMpirun) {
  const std::string script =
      "mount -t tmpfs memory /dev/shm 2>/dev/null || exit 77; \"$@\"; ls -A /dev/shm >&2";
  const Finished job =
      run_program(with({"unshare", "--mount", "--map-root-user", "bash", "-c", script, "bash"},
                       program("alone", {"--epoch", "1", "--max-iterations", "1", "--quiet"})));
  if (job.exit_code == 77 || count_of(job.err, "unshare: ") > 0)
    GTEST_SKIP() << "this machine allows no mounts in a namespace";
  EXPECT_EQ(job.err, "");
  EXPECT_TRUE(std::filesystem::exists(folder / "alone/log"));
}

TEST_F(TrainMnist, LoadsNoCudaLibraryWithoutGpu) {
  const Finished job =
      run_program(program("cpu", {"--epoch", "1"}), 60, {{"LD_DEBUG", "files"}, {"LC_ALL", "C"}});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_GT(count_of(job.err, "libtasuki.so"), 0) << "the loader did not say what it maps";
  for (const char* library :
       {"libtasuki_cuda", "libcuda", "libcublas", "libcudnn", "libnccl", "libnvidia", "libnvrtc"})
    EXPECT_EQ(count_of(job.err, library), 0) << library;
}

TEST_F(TrainMnist, TrainsWithEveryOptimizer) {
  for (const std::string name : {"sgd", "momentum_sgd", "nesterov", "adam", "adamw", "lamb",
                                 "rmsprop", "adagrad", "adadelta"}) {
    SCOPED_TRACE(name);
    // RMSprop's default rate is too large for so few steps of such a small network.
    const std::vector<std::string> rate = name == "adadelta" ? std::vector<std::string>{}
                                          : name == "rmsprop"
                                              ? std::vector<std::string>{"--lr", "1e-3"}
                                              : std::vector<std::string>{"--lr", "0.01"};
    const Finished job =
        run_program(program(name, with({"--optimizer", name, "--epoch", "2", "-b", "24"}, rate)));
    ASSERT_EQ(job.exit_code, 0) << job.all();
    const auto losses = values_of(read_log(name), "main/loss");
    ASSERT_EQ(losses.size(), 2u);
    EXPECT_LT(losses[1], losses[0]);
  }
}

// With the processor's instructions for it, where it has any, and without.
TEST_F(TrainMnist, LearnsInBfloat16LikeInFloat32) {
  const std::vector<std::string> flags = {"--epoch", "8",           "-b",
                                          "24",      "--optimizer", "momentum_sgd"};
  const auto losses = [&](const std::string& out) { return values_of(read_log(out), "main/loss"); };
  ASSERT_EQ(run_program(program("float32", flags)).exit_code, 0);
  const auto expected = losses("float32");
  const std::map<std::string, std::string> all, few = {{"DNNL_MAX_CPU_ISA", "AVX2"}};
  for (const auto& environment : {all, few}) {
    SCOPED_TRACE(environment.size());
    const Finished job =
        run_program(program("bfloat16", with(flags, {"--dtype", "bf16"})), 60, environment);
    ASSERT_EQ(job.exit_code, 0) << job.all();
    const auto found = losses("bfloat16");
    expect_near(found, expected, 0.05);
    EXPECT_NE(found, expected);
    EXPECT_LT(found.back(), 0.2 * found.front());
  }
}

TEST_F(TrainMnist, ResumesLikeAnUninterruptedRun) {
  for (const std::string type : {"fp32", "bf16"}) {
    SCOPED_TRACE(type);
    const std::vector<std::string> flags = {"--batchsize", "24",      "--snapshot-every",
                                            "1",           "--dtype", type};
    auto whole = log_of(2, "whole", with(flags, {"--epoch", "3"}));
    log_of(2, "parts", with(flags, {"--epoch", "2"}));
    const std::string snapshot = folder / "parts/snapshot_iter_20";
    ASSERT_TRUE(std::filesystem::exists(snapshot));
    auto parts = log_of(2, "parts", with(flags, {"--epoch", "3", "--resume", snapshot}));
    for (auto* log : {&whole, &parts})
      for (auto& entry : *log)
        std::erase_if(entry.get_ref<nlohmann::json::object_t&>(), [](const auto& value) {
          return value.first.find("time") != std::string::npos;
        });
    EXPECT_EQ(parts, whole);
  }
}

TEST_F(TrainMnist, MaxIterationsEndsWithinAnEpoch) {
  const auto log = log_of(2, "cut", with(momentum, {"-b", "24", "--max-iterations", "13"}));
  ASSERT_EQ(log.size(), 13u);
  EXPECT_EQ(log.back().at("iteration"), 13);
  EXPECT_EQ(log.back().at("epoch"), 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "cut/snapshot_iter_13"));
}

TEST_F(TrainMnist, FailsWithoutSavingOnDivergence) {
  const std::vector<std::string> flags = {"-b", "24", "--epoch", "2", "--lr", "1e6"};
  const Finished job = run(2, "diverged", with(flags, {"--snapshot-every", "1"}));
  EXPECT_EQ(job.exit_code, 78) << job.all();
  EXPECT_EQ(count_of(job.err, "error: training diverged: main/loss became "), 1) << job.all();
  EXPECT_EQ(count_of(job.err, ", over 1e+06 times the first, "), 1) << job.all();
  for (const auto& file : std::filesystem::directory_iterator(folder / "diverged"))
    EXPECT_FALSE(file.path().filename().string().starts_with("snapshot")) << file.path();
  EXPECT_FALSE(std::filesystem::exists(folder / "diverged/checkpoints"));
  const auto log = log_of(2, "allowed", with(flags, {"--max-loss", "0"}));
  EXPECT_GT(values_of(log, "main/loss").at(0), 1e7);
}

TEST_F(TrainMnist, ExamplesLimitsTheData) {
  const auto log =
      log_of(2, "few", {"-b", "24", "--examples", "96", "--test-examples", "10", "--epoch", "1"});
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].at("iteration"), 2);
  const double correct = 10 * log[0].at("validation/main/accuracy").get<double>();
  EXPECT_NEAR(correct, std::round(correct), 1e-9);
}

}  // namespace
}  // namespace tasuki::testing
