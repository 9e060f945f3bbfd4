// train_mnist on several nodes, made of network namespaces (tests/cluster/run.sh): a hostfile, TCP
// between the nodes, shared memory inside them.

#include <fstream>
#include <map>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/json.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class Cluster : public TrainMnist {
 protected:
  // On nodes of so many ranks each: "2,2". Skips the test where this machine has no namespaces.
  Finished run_on_nodes(const std::string& slots, const std::string& out,
                        const std::vector<std::string>& flags) {
    std::vector<std::string> words = {CLUSTER_RUN, "--slots", slots, "--"};
    for (const std::string& word : program(out, flags)) words.push_back(word);
    Finished job = run_program(words);
    if (job.exit_code == 77) reason_to_skip = job.all();
    return job;
  }
  std::string reason_to_skip;
};

TEST_F(Cluster, TrainsWithEveryCommunicatorAsOnOneNode) {
  const std::vector<std::string> flags = {"--optimizer", "momentum_sgd", "--log-every",      "1",
                                          "--batchsize", "16",           "--max-iterations", "8"};
  const auto with_communicator = [&](const std::string& name) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), {"--communicator", name});
    return all;
  };
  const auto one_node = values_of(log_of(4, "one-node", with_communicator("naive")), "main/loss");
  ASSERT_EQ(one_node.size(), 8u);
  for (const std::string name : {"naive", "flat", "hierarchical", "two_dimensional", "auto"}) {
    SCOPED_TRACE(name);
    const Finished job = run_on_nodes("2,2", name, with_communicator(name));
    if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
    ASSERT_EQ(job.exit_code, 0) << job.all();
    EXPECT_NE(job.out.find("   2  node2"), std::string::npos) << job.out;
    expect_near(values_of(read_log(name), "main/loss"), one_node, 1e-4);
  }
}

// The same losses to the last digit, whenever gradients travel; and what is chosen is said.
TEST_F(Cluster, ExchangesGradientsDuringOrAfterBackward) {
  const std::vector<std::string> flags = {"--verbose",   "--log-every", "1",
                                          "--batchsize", "16",          "--max-iterations",
                                          "8",           "--bucket-mb", "0.05"};
  std::vector<double> losses;
  for (const std::string mode : {"whole", "overlapped", "slices", "thread", "auto"}) {
    SCOPED_TRACE(mode);
    const Finished job = run_on_nodes("2,1", mode, with(flags, {"--exchange", mode}));
    if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
    ASSERT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.all(), "during the backward pass"), mode == "whole" ? 0 : 1)
        << job.all();
    EXPECT_EQ(count_of(job.all(), "after the backward pass"), mode == "whole" ? 1 : 0);
    const std::vector<double> found = values_of(read_log(mode), "main/loss");
    ASSERT_EQ(found.size(), 8u);
    if (losses.empty()) losses = found;
    EXPECT_EQ(found, losses);
  }
}

// 18 steps of trials, after one in which ranges get their order; what is chosen changes no bit.
TEST_F(Cluster, MeasuresAndReportsWhenGradientsTravel) {
  const std::vector<std::string> flags = {"--verbose", "--batchsize", "4",   "--max-iterations",
                                          "24",        "--bucket-mb", "0.05"};
  std::vector<double> losses;
  for (const std::string mode : {"whole", "auto"}) {
    const Finished job = run_on_nodes("1,1", mode, with(flags, {"--exchange", mode}));
    if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
    ASSERT_EQ(job.exit_code, 0) << job.all();
    for (const char* said : {"gradients travel ", " ms from the first gradient to the last sum, ",
                             "in slices between layers", "by a thread during the backward pass",
                             "after the backward pass"})
      EXPECT_EQ(count_of(job.all(), said) > 0,
                mode == "auto" || said == std::string("after the backward pass"))
          << said << "\n--- in ---\n"
          << job.all();
    const std::vector<double> found = values_of(read_log(mode), "main/loss");
    if (losses.empty()) losses = found;
    EXPECT_EQ(found, losses);
  }
}

TEST_F(Cluster, TrainsAlikeWithEveryAlgorithm) {
  const std::vector<std::string> flags = {"--optimizer", "momentum_sgd", "--log-every",      "1",
                                          "--batchsize", "16",           "--max-iterations", "4"};
  std::vector<double> losses;
  for (const std::string name : {"auto", "ring", "halving-doubling", "tree", "direct", "mpi"}) {
    SCOPED_TRACE(name);
    const Finished job = run_on_nodes("1,1,1", name, with(flags, {"--allreduce", name}));
    if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
    ASSERT_EQ(job.exit_code, 0) << job.all();
    const std::string said = name == "auto" ? "the fastest algorithm as predicted" : name;
    EXPECT_EQ(count_of(job.out, "(" + said + ")"), 1) << job.out;
    const std::vector<double> found = values_of(read_log(name), "main/loss");
    ASSERT_EQ(found.size(), 4u);
    if (losses.empty()) losses = found;
    expect_near(found, losses, 1e-4);
  }
}

// The shaper lets nothing through faster than its rate but its buffer of 64 KB.
TEST_F(Cluster, MeasuresTheLinkOncePerFolder) {
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--verbose", "--overwrite", "--max-iterations", "1"});
    std::vector<std::string> words = {CLUSTER_RUN, "--slots", "1,1", "--rate", "100mbit", "--"};
    for (const std::string& word : program("result", flags)) words.push_back(word);
    Finished job = run_program(words);
    if (job.exit_code == 77) reason_to_skip = job.all();
    return job;
  };
  const std::filesystem::path file = folder.path() / "result/link.json";
  const Finished unmeasured = run({"--probe", "off"});
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  EXPECT_EQ(unmeasured.exit_code, 0) << unmeasured.all();
  EXPECT_EQ(count_of(unmeasured.all(), "the link between machines"), 0) << unmeasured.all();
  EXPECT_FALSE(std::filesystem::exists(file));

  const Finished measured = run({});
  EXPECT_EQ(count_of(measured.all(), "(measured now)"), 1) << measured.all();
  const auto link = json_in(file);
  EXPECT_EQ(link.at("hosts"), (std::vector<std::string>{"node1", "node2"}));
  EXPECT_GT(link.at("bytes_per_second").get<double>(), 0);
  EXPECT_LT(link.at("bytes_per_second").get<double>(), 13.5e6);
  EXPECT_GT(link.at("latency").get<double>(), 0);

  const Finished known = run({});
  EXPECT_EQ(count_of(known.all(), "the link between machines"), 1) << known.all();
  EXPECT_EQ(count_of(known.all(), "(measured now)"), 0) << known.all();
  EXPECT_EQ(json_in(file), link);

  std::ofstream(file) << "{\"hosts\": ";
  const Finished repaired = run({});
  EXPECT_EQ(repaired.exit_code, 0) << repaired.all();
  EXPECT_EQ(count_of(repaired.all(), "(measured now)"), 1) << repaired.all();
  EXPECT_NO_THROW(json_in(file));
}

TEST_F(Cluster, ReportsHiddenTimeWithDoubleBuffering) {
  const Finished job =
      run_on_nodes("1,1", "result",
                   {"--batchsize", "16", "--max-iterations", "8", "--exchange", "double-buffered"});
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "% of the transfer is hidden behind the computation"), 1) << job.out;
}

TEST_F(Cluster, ReportsChosenAlgorithmPredictionAndOutcome) {
  const Finished job = run_on_nodes(
      "1,1,1", "result",
      {"--verbose", "--max-iterations", "12", "--exchange", "whole", "--batchsize", "8"});
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.all(), " bytes among 3 by "), 1) << job.all();
  EXPECT_EQ(count_of(job.all(), "ms (median of 10)"), 1) << job.all();
}

TEST_F(Cluster, TracesExchangesOfAllRanks) {
  const std::string file = folder / "trace.json";
  const Finished job =
      run_on_nodes("2,1", "result",
                   {"--batchsize", "16", "--max-iterations", "12", "--exchange", "thread",
                    "--bucket-mb", "0.05", "--trace", file, "--trace-steps", "4"});
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "% of the transfer is hidden behind the computation"), 1) << job.out;
  const auto trace = json_in(file);
  const auto& about = trace.at("otherData");
  EXPECT_EQ(about.at("steps"), 4);
  EXPECT_EQ(about.at("exchange"), "thread");
  EXPECT_EQ(about.at("ranks").at(2).at("host"), "node2");
  const std::size_t ranges = about.at("range_bytes").size();
  EXPECT_GT(ranges, 1U);
  std::map<std::pair<int, std::string>, std::size_t> found;
  for (const auto& event : trace.at("traceEvents")) ++found[{event.at("pid"), event.at("name")}];
  for (const int rank : {0, 1, 2}) {
    SCOPED_TRACE(rank);
    EXPECT_EQ((found[{rank, "backward"}]), 4U);
    EXPECT_EQ((found[{rank, "complete"}]), 4 * ranges);
    EXPECT_EQ((found[{rank, "sum of a range"}]), 4 * ranges);
  }
}

// The last line of a run's hashes, which has the arrays of each node.
std::string last_hashes(const std::filesystem::path& out) {
  std::ifstream lines(out / "hashes");
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return last;
}

// Each kind of communicator inside nodes and between them, and nodes of different sizes.
TEST_F(Cluster, BringsNodesTogetherEveryFewSteps) {
  const std::vector<std::string> flags = {"--sync-every",     "4",  "--log-every", "4",
                                          "--batchsize",      "16", "--optimizer", "momentum_sgd",
                                          "--max-iterations", "8",  "--epoch",     "9"};
  for (const std::string slots : {"2,2", "2,1"}) {
    std::vector<double> losses;
    for (const std::string name : {"auto", "hierarchical", "flat", "naive"}) {
      SCOPED_TRACE(slots + " " + name);
      const Finished job =
          run_on_nodes(slots, "kinds", with(flags, {"--communicator", name, "--overwrite"}));
      if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
      ASSERT_EQ(job.exit_code, 0) << job.all();
      EXPECT_EQ(count_of(job.out,
                         "Local steps: 2 machines synchronise every 4 steps; weights become "
                         "their mean\n"),
                1)
          << job.out;
      const std::vector<double> found = values_of(read_log("kinds"), "main/loss");
      ASSERT_EQ(found.size(), 2u);
      if (losses.empty()) losses = found;
      expect_near(found, losses, 1e-4);
    }
    // The second line is of steps with weights that machines have brought together.
    const auto losses_with = [&](const char* every) {
      const Finished job =
          run_on_nodes(slots, "kinds", with(flags, {"--sync-every", every, "--overwrite"}));
      EXPECT_EQ(job.exit_code, 0) << job.all();
      return values_of(read_log("kinds"), "main/loss");
    };
    EXPECT_NE(losses_with("none"), losses);
    EXPECT_NE(losses_with("9").at(1), losses.at(1));
  }
}

// A run that goes on from a checkpoint has the bits of the one that saved it, also if differences
// travel during steps.
TEST_F(Cluster, ResumesLocalStepsWithTheSameBits) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--outer-optimizer", "nesterov", "--sync-warmup", "2"},
        {"--sync-overlap", "--shard", "gradients", "--wire-dtype", "bf16"}}) {
    const std::vector<std::string> flags =
        with(with({"--sync-every", "3", "--checkpoint-every", "5it", "--hash-every", "14",
                   "--batchsize", "16", "--max-iterations", "14", "--epoch", "9"},
                  more),
             {"--overwrite"});
    const Finished whole = run_on_nodes("2,1", "whole", flags);
    if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
    ASSERT_EQ(whole.exit_code, 0) << whole.all();
    std::vector<std::string> resuming = flags;
    resuming.pop_back();
    std::filesystem::remove_all(folder / "second");
    const Finished second = run_on_nodes(
        "2,1", "second", with(resuming, {"--resume", folder / "whole/checkpoints/iter_5"}));
    ASSERT_EQ(second.exit_code, 0) << second.all();
    const std::string hashes = last_hashes(folder / "whole");
    EXPECT_NE(hashes.find("part1/"), std::string::npos) << hashes;
    EXPECT_EQ(last_hashes(folder / "second"), hashes);
    // Flags are kept, and can be switched off.
    std::filesystem::remove_all(folder / "third");
    const Finished third = run_on_nodes("2,1", "third",
                                        {"--resume", folder / "whole/checkpoints/iter_5",
                                         "--max-iterations", "6", "--batchsize", "16"});
    EXPECT_EQ(third.exit_code, 0) << third.all();
    EXPECT_EQ(count_of(third.out, "Local steps: 2 machines synchronise every 3 steps"), 1)
        << third.out;
    std::filesystem::remove_all(folder / "fourth");
    const Finished fourth =
        run_on_nodes("2,1", "fourth",
                     {"--resume", folder / "whole/checkpoints/iter_5", "--max-iterations", "6",
                      "--batchsize", "16", "--sync-every", "none"});
    EXPECT_EQ(fourth.exit_code, 0) << fourth.all();
    EXPECT_EQ(count_of(fourth.all(), "machines that trained by themselves"), 1) << fourth.all();
  }
}

TEST_F(Cluster, SaysWhatLocalStepsNeed) {
  const Finished dry = run_on_nodes("1,1", "dry",
                                    {"--dry-run", "--sync-every", "9", "--sync-warmup", "3",
                                     "--outer-optimizer", "nesterov", "--sync-overlap"});
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  ASSERT_EQ(dry.exit_code, 0) << dry.all();
  EXPECT_EQ(count_of(dry.out,
                     "synchronise every 9 steps, in each of the first 3; Nesterov, lr 0.7, "
                     "momentum 0.9, while the next steps are computed\n"),
            1)
      << dry.out;
  EXPECT_EQ(count_of(dry.out, " MB local steps"), 1) << dry.out;
  const Finished alone =
      run_program(mpirun(2, program("alone", {"--sync-every", "4", "--max-iterations", "4"})));
  EXPECT_EQ(alone.exit_code, 0) << alone.all();
  EXPECT_EQ(count_of(alone.all(), "--sync-every has no effect: all ranks are on one machine"), 1)
      << alone.all();
}

TEST_F(Cluster, RejectsUnsuitableCommunicatorInOneLine) {
  const std::vector<std::vector<std::string>> cases = {
      {"3,1", "two_dimensional", "node1 has 3 and node2 has 1"},
      {"1,1", "single_node", "needs all ranks on one node"}};
  for (const auto& one : cases) {
    const Finished job = run_on_nodes(one[0], "result", {"--communicator", one[1]});
    if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
    EXPECT_FALSE(job.timed_out);
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
    EXPECT_EQ(count_of(job.all(), one[2]), 1) << job.all();
  }
}

// Relative paths name files on the first node only: the other one runs in another folder.
TEST_F(Cluster, NeedsFilesOnlyOnTheFirstNode) {
  std::ofstream(folder / "run.ini") << "epoch = 1\nbatchsize = 24\n";
  const Finished job =
      run_program({"env", "-C", folder.path(), CLUSTER_RUN, "--slots", "1,1", "--", "sh", "-c",
                   "[ $(hostname) = node1 ] || cd /; exec \"$@\"", "sh", TRAIN_MNIST, "--config",
                   "run.ini", "--data", "data", "--out", "result"});
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(read_log("result").size(), 1u);
}

}  // namespace
}  // namespace tasuki::testing
