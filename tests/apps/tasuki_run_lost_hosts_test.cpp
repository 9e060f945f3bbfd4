// tasuki-run when hosts are lost: on simulated nodes, with real launchers and ranks.
#include <csignal>
#include <set>

#include "tasuki_run_job.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class LostHosts : public TrainMnist {
 protected:
  // On two nodes with two ranks each; `flags` may say more of them.
  Finished run_on_nodes(const Words& flags, const std::string& line) {
    return run_program(with(with({CLUSTER_RUN, "--slots", "2,2"}, flags), {"--shell", "--", line}),
                       100);
  }
  static std::string tasuki_run(const std::string& hostfile, const Words& flags,
                                const Words& program) {
    std::string line = TASUKI_RUN + " -np 4 --hostfile " + hostfile;
    for (const std::string& word : with(flags, program)) line += " '" + word + "'";
    return line;
  }
  // The second node is cut off once there is `sign`.
  Finished run_and_cut(const Words& flags, const Words& program, const fs::path& sign) {
    return run_on_nodes({"--cut", sign}, "exec " + tasuki_run("/run/hostfile", flags, program));
  }
  // A node of the hostfile that does not answer from the beginning.
  const std::string one_away = "printf 'node1 slots=2\\nnode9 slots=2\\n' >/run/hosts_away; ";
  const std::string unreached = "error: node9 cannot be reached (ssh: connect to host node9: ";
};

TEST_F(LostHosts, CanBeMissingAtTheStart) {
  const Finished fewer = run_on_nodes(
      {}, one_away + "exec " +
              tasuki_run("/run/hosts_away", {"--min-np", "2"},
                         program("result", {"--epoch", "1", "--max-iterations", "3"})));
  if (fewer.exit_code == 77) GTEST_SKIP() << fewer.all();
  EXPECT_EQ(fewer.exit_code, 0) << fewer.all();
  EXPECT_EQ(count_of(fewer.err, "node9 does not answer and is left out"), 1) << fewer.err;
  EXPECT_EQ(count_of(fewer.err, "exit code 255 (" + unreached), 1) << fewer.err;
  EXPECT_EQ(count_of(fewer.err, "RTE "), 0) << fewer.err;
  EXPECT_EQ(count_of(fewer.out, "Num process (COMM_WORLD): 2\n"), 1) << fewer.out;
  const Events events(folder / "result");
  EXPECT_EQ(events[1].at("event"), "failure");
  EXPECT_EQ(events[1].at("host"), "node9");

  const Finished all = run_on_nodes(
      {}, one_away + "exec " +
              tasuki_run("/run/hosts_away", {"--host-timeout", "0"}, program("other", {})));
  EXPECT_EQ(all.exit_code, 255) << all.all();
  EXPECT_THAT(all.err, HasSubstr("giving up: node9 did not answer within 0 s\n" + unreached));
}

// Each node has a /dev/shm of its own.
TEST_F(LostHosts, CanLackTheProgram) {
  const Finished job = run_on_nodes(
      {}, "cp " + TRAIN_MNIST + " /dev/shm/here; exec " +
              tasuki_run("/run/hostfile", {}, with({"/dev/shm/here"}, {"--out", folder / "o"})));
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  const std::set<int> of_hydra = {255, 128 + SIGPIPE};  // MPICH's, Intel's
  const std::set<int> expected = has_hydra() ? of_hydra : std::set{is_orte ? 132 : 183};
  EXPECT_TRUE(expected.contains(job.exit_code)) << job.all();
  EXPECT_EQ(count_of(job.err, "restart 1"), 0) << job.err;
  EXPECT_THAT(job.err, ::testing::EndsWith("error: /dev/shm/here is missing on node2, or cannot be "
                                           "executed there; every host needs it at this path\n"));
}

TEST_F(LostHosts, AreExcludedIfFewerRanksAreAllowed) {
  const Finished job =
      run_and_cut({"--min-np", "2"},
                  program("result", {"--shards", "4", "--global-batch", "48", "--epoch", "100",
                                     "--checkpoint-every", "20it", "--resume", "auto",
                                     "--max-iterations", "800"}),
                  folder / "result/checkpoints/iter_60");
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(fs::exists(folder / "result/snapshot_iter_800"));
  EXPECT_EQ(count_of(job.err, "node2 does not answer and is left out"), 1) << job.err;
  EXPECT_EQ(count_of(job.err, "2 ranks instead of 4 on node1\n"), 1) << job.err;
  const Events events(folder / "result");
  EXPECT_THAT(events.names(),
              ElementsAre("start", "failure", "host_lost", "restart", "start", "end"));
  EXPECT_EQ(events[2].at("host"), "node2");
  EXPECT_EQ(events[4].at("np"), 2);
  EXPECT_EQ(events[4].at("hosts"), Words{"node1"});
}

}  // namespace
}  // namespace tasuki::testing
