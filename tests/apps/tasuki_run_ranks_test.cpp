// tasuki-run with real launchers and ranks, on this machine, on lost hosts and under Slurm.
#include <unistd.h>

#include <future>

#include "snapshot_hash.hpp"
#include "tasuki/job/process_state.hpp"
#include "tasuki_run_job.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class RealLauncher : public TrainMnist {
 protected:
  Words supervised(const std::string& out, const Words& flags) {
    return with(
        {TASUKI_RUN, "-np", "2"},
        with({TRAIN_MNIST, "--data", data, "--unit", "32", "--threads", "1", "--quiet", "-b", "4"},
             with(out.empty() ? Words{} : Words{"--out", folder / out}, flags)));
  }
  // The processes of ranks.
  static std::vector<pid_t> ranks(pid_t supervisor) {
    std::vector<pid_t> found;
    for (const pid_t each : descendants(supervisor))
      if (const auto state = process_state(each);
          state && std::string_view(state->name.data()) == "train_mnist")
        found.push_back(each);
    return found;
  }
  // Of this iteration or a later one, as old ones are removed.
  bool has_checkpoint(const std::string& out, int iteration) {
    for (; iteration <= iterations; iteration += 20)
      if (fs::exists(folder / out / "checkpoints" / ("iter_" + std::to_string(iteration))))
        return true;
    return false;
  }
  std::uint64_t final_weights(const std::string& out) {
    return hash_of_weights(folder / out / ("snapshot_iter_" + std::to_string(iterations)));
  }

  static constexpr int iterations = 600;
  const Words training = {
      "--epoch", "100", "--max-iterations", std::to_string(iterations), "--checkpoint-every",
      "20it"};
};

TEST_F(RealLauncher, KilledRanksChangeNothing) {
  const Finished calm = run_program(supervised("calm", training));
  ASSERT_EQ(calm.exit_code, 0) << calm.all();

  bool is_killed = false;
  // Its folder is a setting of a file.
  std::ofstream(folder / "killed.ini") << "out = " << (folder / "killed").string() << '\n';
  const Words flags = {"--config", folder / "killed.ini"};
  const Finished job =
      run_program(supervised("", with(training, flags)), 60, {}, [&](pid_t supervisor) {
        if (is_killed || !has_checkpoint("killed", 60)) return;
        const auto processes = ranks(supervisor);
        if (processes.size() == 2) is_killed = kill(processes[1], SIGKILL) == 0;
      });
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(is_killed);
  EXPECT_EQ(count_of(job.err, "ended by signal 9 (Killed)); restart 1 of 3 in 1 s from /"), 1)
      << job.err;
  EXPECT_EQ(final_weights("killed"), final_weights("calm"));
  EXPECT_THAT(Events(folder / "killed").names(),
              ElementsAre("start", "failure", "restart", "start", "end"));
}

TEST_F(RealLauncher, ControlCSavesAndStops) {
  bool is_sent = false;
  const Finished job =
      run_program(supervised("result", {"--epoch", "100000"}), 60, {}, [&](pid_t supervisor) {
        if (is_sent || !fs::exists(folder / "result/log")) return;
        is_sent = kill(-supervisor, SIGINT) == 0;  // as a terminal does
      });
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_THAT(job.err, HasSubstr("stopped and saved after iteration "));
  EXPECT_EQ(count_of(job.err, "mpirun"), 0) << job.err;
}

// Neither processes nor files are left of a launcher that was killed.
TEST_F(RealLauncher, KilledLaunchersLeaveNothing) {
  pid_t launcher = 0;
  std::vector<pid_t> killed;
  const Finished job =
      run_program(supervised("result", with(training, {"--max-iterations", "100000"})), 60, {},
                  [&](pid_t supervisor) {
                    if (launcher == 0 && has_checkpoint("result", 60)) {
                      killed = ranks(supervisor);
                      for (const pid_t each : descendants(supervisor))
                        if (const auto state = process_state(each);
                            state && std::string_view(state->name.data()) == "mpirun")
                          launcher = each;
                      if (launcher > 0) kill(launcher, SIGKILL);
                    } else if (launcher != 0 && ranks(supervisor) != killed &&
                               fs::exists(folder / "result/incidents.jsonl") &&
                               Events(folder / "result").names().back() == "start") {
                      kill(supervisor, SIGTERM);
                    }
                  });
  EXPECT_EQ(count_of(job.err, "restart 1 of 3"), 1) << job.err;
  for (const pid_t rank : killed) EXPECT_FALSE(process_state(rank)) << rank;
  for (const auto& host : fs::directory_iterator(fs::temp_directory_path()))
    EXPECT_FALSE(fs::exists(host.path() / ("pid." + std::to_string(launcher)))) << host.path();
}

TEST_F(RealLauncher, ErrorsAreTheLastLine) {
  const Finished job = run_program(supervised("result", {"--shards", "3"}));
  EXPECT_EQ(job.exit_code, 78) << job.all();
  EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
  EXPECT_THAT(job.err, HasSubstr("3 shards cannot be shared"));
}

class LostHosts : public TrainMnist {
 protected:
  // On two nodes with two ranks each, the second of which is cut off once there is `sign`.
  Finished run_and_cut(const Words& flags, const Words& program, const fs::path& sign) {
    std::string line = "exec";
    for (const std::string& word :
         with(with({TASUKI_RUN, "-np", "4", "--hostfile", "/run/hostfile"}, flags), program))
      line += " '" + word + "'";
    return run_program({CLUSTER_RUN, "--slots", "2,2", "--cut", sign, "--shell", "--", line}, 100);
  }
};

TEST_F(LostHosts, AreLeftOutIfFewerRanksAreAllowed) {
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

// Started in the allocation by mpirun or by srun; Slurm's warning saves.
TEST_F(TrainMnist, SlurmJobsAreSupervised) {
  const auto run_in_slurm = [this](const std::string& launcher) {
    std::string line = "exec";
    for (const std::string& word :
         with({TASUKI_RUN, "--launcher", launcher},
              program(launcher, {"--epoch", "100000", "--log-every", "1"})))
      line += " '" + word + "'";
    return run_program({SLURM_RUN, "2", "--signal", folder / (launcher + "/log"), "--", line});
  };
  // At once, as most of the time Slurm waits.
  auto with_srun = std::async(std::launch::async, run_in_slurm, "srun");
  for (const Finished& job : {run_in_slurm("mpirun"), with_srun.get()}) {
    if (job.exit_code == 77) GTEST_SKIP() << job.all();
    EXPECT_EQ(job.exit_code, 79) << job.all();
    EXPECT_EQ(count_of(job.out, "Num process (COMM_WORLD): 2\n"), 1) << job.all();
    EXPECT_EQ(count_of(job.out, "SIGUSR1: the job saves and stops\n"), 1) << job.all();
    EXPECT_EQ(count_of(job.out, "stopped and saved after iteration "), 1) << job.all();
  }
}

}  // namespace
}  // namespace tasuki::testing
