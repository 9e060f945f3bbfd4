// On which hosts tasuki-run starts a job again, when some do not answer.
#include "tasuki_run_job.hpp"

namespace tasuki::testing {
namespace {

// A host answers where there is a file of its name.
class TasukiRunHosts : public TasukiRun {
 protected:
  TasukiRunHosts() {
    std::ofstream(folder / "hosts") << "a slots=1\nb slots=1\n";
    script("agent", "#!/bin/bash\n[ -e '" + folder.path().string() + "'/$1 ]\n");
    std::ofstream(folder / "a");
  }
  Words words_on_hosts(const Words& flags) {
    const std::string shell = has_hydra() ? "-launcher-exec " : "--mca plm_rsh_agent ";
    return words(
        with({"--hostfile", folder / "hosts", "--mpirun-args", shell + (folder / "agent").string()},
             flags));
  }
  // The beginning of a plan: $2 becomes the launcher's hostfile.
#ifdef I_MPI_VERSION
  static constexpr const char* hostfile_flag = "-machine";
#elif defined(OPEN_MPI)
  static constexpr const char* hostfile_flag = "--hostfile";
#else
  static constexpr const char* hostfile_flag = "-f";
#endif
  const std::string find_hostfile =
      std::string("while [ \"$1\" != ") + hostfile_flag + " ]; do shift; done; ";
  // As that file has it.
  static std::string one_slot_on(const std::string& host) {
    return host + (has_hydra() ? ":1\n" : " slots=1\n");
  }
};

TEST_F(TasukiRunHosts, CanLeaveAndReturn) {
  const Finished job = run("take " + out.string() + "; " + find_hostfile +
                               "cat $2 > hosts$n\n"
                               "save $n; [ $n != 2 ] || touch b; [ $n = 3 ] || exit 205",
                           words_on_hosts({"--min-np", "1"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 3u);
  EXPECT_THAT(calls()[1], HasSubstr("mpirun -np 1 "));
  EXPECT_THAT(calls()[2], HasSubstr("mpirun -np 2 "));
  EXPECT_EQ(read("hosts1"), one_slot_on("a") + one_slot_on("b"));
  EXPECT_EQ(read("hosts2"), one_slot_on("a"));
  EXPECT_EQ(read("hosts3"), read("hosts1"));
  EXPECT_THAT(job.err, HasSubstr("b does not answer and is left out\n"));
  EXPECT_THAT(job.err, HasSubstr("1 rank instead of 2 on a, and so another global batch"));
  EXPECT_THAT(job.err, HasSubstr("b answers again\n"));
  EXPECT_THAT(Events(out).names(), ElementsAre("start", "failure", "host_lost", "restart", "start",
                                               "failure", "host_back", "restart", "start", "end"));
}

// What was saved may need as many ranks as before.
TEST_F(TasukiRunHosts, AreAwaitedIfFewerRanksCannotContinue) {
  const auto return_when_missed = [&](pid_t) {
    if (has_said(out, "waiting_for_hosts")) std::ofstream(folder / "b");
  };
  const Finished job =
      run("take " + out.string() +
              "; case $n in 1) save 1; exit 205;; 2) echo 'error: 2 ranks, not 1' >&2; "
              "exit 78;; esac",
          words_on_hosts({"--min-np", "1"}), return_when_missed);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 3u) << job.all();
  EXPECT_THAT(calls()[1], HasSubstr("mpirun -np 1 "));
  EXPECT_THAT(calls()[2], HasSubstr("mpirun -np 2 "));
  EXPECT_THAT(job.err, HasSubstr("cannot continue with fewer ranks; it restarts with all\n"));
  EXPECT_THAT(job.err, HasSubstr("waiting for b at most 600 s"));
}

TEST_F(TasukiRunHosts, CanHaveRemoteOutputFolder) {
  const Finished job = run("echo 'rank 0 on a: broken' >&2; exit 70", words_on_hosts({}));
  EXPECT_EQ(job.exit_code, 70);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(job.err,
            "rank 0 on a: broken\ntasuki-run: no restart: this machine does not see " +
                out.string() +
                ", so the saved state is not known; give --resume auto, or --out on a disk that "
                "all machines share\nrank 0 on a: broken\n");
}

// With the arguments of ssh that the first start had, from the user's file.
TEST_F(TasukiRunHosts, AreCheckedThroughMpirunsRemoteShell) {
  if (has_hydra()) GTEST_SKIP() << "Hydra has no file of settings for ssh";
  const fs::path settings = folder / (is_orte ? ".openmpi" : ".prte");
  fs::create_directories(settings);
  std::ofstream(settings / "mca-params.conf")
      << (is_orte ? "plm_rsh_args" : "plm_ssh_args") << " = -p 2222\n";
  script("agent", "#!/bin/bash\n[ \"$1 $2\" = '-p 2222' ]\n");
  std::ofstream(folder / "plan") << "take " + out.string() + "; [ $n = 2 ] || exit 205";
  auto changes = environment();
  changes["HOME"] = folder.path();
  const Finished job = run_program(words_on_hosts({"--host-timeout", "0"}), 30, changes);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(calls().size(), 2u) << job.all();
}

// mpirun cannot read what Windows has written.
TEST_F(TasukiRunHosts, AreReadFromWindowsHostfiles) {
  std::ofstream(folder / "hosts") << "\xEF\xBB\xBF"
                                     "a slots=1\r\nb slots=1\r\n";
  const Finished job = run(find_hostfile + "cat $2 > found", words_on_hosts({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(read("found"), one_slot_on("a") + one_slot_on("b"));
}

TEST_F(TasukiRunHosts, AreRejectedWhenMpirunCannotUseThem) {
  std::ofstream(folder / "hosts") << "localhost:2\n";
  const Finished job = run("exit 0", words_on_hosts({}));
  EXPECT_EQ(job.exit_code, 78) << job.all();
  EXPECT_THAT(job.err, HasSubstr("hosts: 'localhost:2' has a colon"));
  EXPECT_EQ(calls().size(), 0u);
}

TEST_F(TasukiRunHosts, AreReadFromAPipe) {
  const std::string plan = find_hostfile + "cat $2 > found; cat $2 >> found";
  const Finished job =
      run(plan, {"/bin/bash", "-c",
                 "exec " + std::string(TASUKI_RUN) + " --hostfile <(cat " +
                     (folder / "hosts").string() + ") " + (folder / "train").string()});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  const std::string hosts = one_slot_on("a") + one_slot_on("b");
  EXPECT_EQ(read("found"), hosts + hosts);
}

TEST_F(TasukiRunHosts, NeedSlotsForFewerRanks) {
  std::ofstream(folder / "hosts") << "a\nb\n";
  const Finished job = run(
      "exit 0", {TASUKI_RUN, "--hostfile", folder / "hosts", "--min-np", "1", folder / "train"});
  EXPECT_EQ(job.exit_code, 64);
  EXPECT_EQ(job.err,
            "error: --min-np: expected -np N, or slots=N on each line of --hostfile, found "
            "neither\n");
}

TEST_F(TasukiRunHosts, EndTheJobWhenTheyStayAway) {
  const Finished job =
      run("take " + out.string() + "; save 1; exit 205", words_on_hosts({"--host-timeout", "0"}));
  EXPECT_EQ(job.exit_code, 205) << job.all();
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, HasSubstr("waiting for b at most 0 s (--host-timeout)\n"));
  EXPECT_THAT(job.err, HasSubstr("giving up: b did not answer within 0 s\n"));
}

}  // namespace
}  // namespace tasuki::testing
