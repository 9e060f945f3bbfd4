// Which signals to tasuki-run do what to the job.
#include "core/process_state.hpp"
#include "tasuki_run_job.hpp"

namespace tasuki::testing {
namespace {

TEST_F(TasukiRun, SignalsMakeTheJobSaveAndStop) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const Finished job =
        run("trap 'echo saved; exit 79' USR1; trap 'exit 1' TERM INT HUP; touch ready\n"
            "while :; do sleep 0.05; done",
            words({}), when_ready({signal}));
    EXPECT_EQ(job.exit_code, 79) << job.all();
    EXPECT_EQ(job.out, "saved\n");
    EXPECT_THAT(job.err, HasSubstr("the job saves and stops"));
    EXPECT_EQ(calls().size(), 1u);
    fs::remove(folder / "ready");
  }
}

TEST_F(TasukiRun, EndsJobAtOnceOnSecondControlC) {
  const std::string plan =
      "trap : USR1; trap 'echo ended; exit 1' TERM; touch ready\n"
      "while :; do sleep 0.05; done";
  const Finished job = run(plan, words({}), when_ready({SIGINT, SIGINT}));
  EXPECT_EQ(job.exit_code, 130) << job.all();
  EXPECT_EQ(job.out, "ended\n");
  EXPECT_THAT(job.err, ::testing::EndsWith("ended by SIGINT; nothing was saved\n"));
  EXPECT_EQ(calls().size(), 1u);
  fs::remove(folder / "ready");
  const Finished slow =
      run("take " + out.string() + "; touch " + out.string() + "/snapshot_iter_5\n" + plan,
          words({"--stop-timeout", "0.3"}), when_ready({SIGTERM}));
  EXPECT_EQ(slow.exit_code, 143) << slow.all();
  EXPECT_THAT(slow.err, HasSubstr("has not stopped within 0.3 s (--stop-timeout)"));
  EXPECT_THAT(slow.err, HasSubstr("continue with --out " + out.string() + " --resume auto"));
}

// As mpirun does while it starts.
TEST_F(TasukiRun, RepeatsStopRequestsUntilAcknowledged) {
  const Finished job =
      run("n=0; trap '[ $((++n)) = 1 ] || exit 79' USR1; touch ready\n"
          "while :; do sleep 0.05; done",
          words({"--stop-timeout", "10"}), when_ready({SIGTERM}));
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_LT(job.seconds, 8 * patience());
}

TEST_F(TasukiRun, KillsUnresponsiveLauncherOnThirdControlC) {
  const Finished job = run("trap '' USR1 TERM; touch ready; while :; do sleep 0.05; done",
                           words({}), when_ready({SIGUSR1, SIGINT, SIGINT, SIGINT}));
  EXPECT_EQ(job.exit_code, 128 + SIGUSR1) << job.all();
  EXPECT_LT(job.seconds, 4 * patience());
  EXPECT_THAT(job.err, HasSubstr("the job is saving; Ctrl-C again ends it at once\n"));
}

// Open MPI 4.1's mpirun sometimes deadlocks when it ends.
TEST_F(TasukiRun, KillsLauncherThatIsStuckAfterItsRanks) {
  const std::string plan =
      "[ $n = 2 ] && exit 0\ntake " + out.string() +
      "; save 5; trap : USR1; sleep 0.5; trap - USR1; mkfifo lock; read -r < lock";
  const Finished job = run(plan, words({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(calls().size(), 2u);
  EXPECT_THAT(job.err, HasSubstr("exit code 137 (error: mpirun had not ended 5 s after its ranks; "
                                 "it was killed); restart 1 of 3"));
}

TEST_F(TasukiRun, CountsAFinishedRunOfAStuckLauncherAsFinished) {
  const std::string plan = "take " + out.string() + "; save 5; touch " + out.string() +
                           "/finished.json; trap : USR1; sleep 0.5; trap - USR1; mkfifo lock; "
                           "read -r < lock";
  const Finished job = run(plan, words({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, HasSubstr("the run has finished; the launcher did not end and was killed"));
}

TEST_F(TasukiRun, LetsOtherProgramsHandleSignals) {
  const Finished job = run("trap 'exit 3' TERM; touch ready; while :; do sleep 0.05; done",
                           words({"--stop-timeout", "0"}, "other"), when_ready({SIGTERM}));
  EXPECT_EQ(job.exit_code, 3) << job.all();
}

// While the program is asked for its flags nothing has been started yet.
TEST_F(TasukiRun, ExitsOnSignalsDuringTheFlagCheck) {
  script("slow", "#!/bin/bash\n# --print-config\ntouch '" + (folder / "ready").string() +
                     "'; sleep 20 & wait\n");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const Finished job = run("exit 0", words({}, "slow"), when_ready({SIGUSR2, signal}));
    EXPECT_EQ(job.exit_code, 128 + signal) << job.all();
    EXPECT_FALSE(fs::exists(folder / "calls"));
    fs::remove(folder / "ready");
  }
}

// Ctrl-Z. mpirun stops and continues its ranks on these signals.
TEST_F(TasukiRun, SuspendsAndContinuesWithTheTerminal) {
  int step = 0;
  const Finished job =
      run("trap 'touch stopped' TSTP; trap 'touch continued' CONT; touch ready\n"
          "until [ -e continued ]; do sleep 0.05; done",
          words({}), [&](pid_t program) {
            if (step == 0 && fs::exists(folder / "ready"))
              step += kill(program, SIGTSTP) == 0 ? 1 : 0;
            const auto state = process_state(program);
            if (step == 1 && fs::exists(folder / "stopped") && state && state->is_stopped())
              step += kill(program, SIGCONT) == 0 ? 1 : 0;
          });
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(step, 2);
}

TEST_F(TasukiRun, PassesOnOtherSignals) {
  const Finished job =
      run("trap 'echo asked; touch answered' USR2; touch ready\n"
          "until [ -e answered ]; do sleep 0.05; done",
          words({}), when_ready({SIGUSR2}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(job.out, "asked\n");
}

TEST_F(TasukiRun, CanBeStoppedWhileWaitingToRestart) {
  bool is_sent = false;
  const Finished job = run("take " + out.string() + "; exit 74", words({}), [&](pid_t supervisor) {
    if (is_sent || !has_said(out, "failure")) return;
    is_sent = kill(supervisor, SIGTERM) == 0;
  });
  EXPECT_EQ(job.exit_code, 143) << job.all();
  EXPECT_LT(job.seconds, 10 * patience());
}

}  // namespace
}  // namespace tasuki::testing
