// When tasuki-run starts a job, and when it starts it again.
#include <sys/stat.h>

#include <optional>

#include "core/file_lock.hpp"
#include "tasuki_run_job.hpp"

namespace tasuki::testing {
namespace {

TEST_F(TasukiRun, PassesOnExitCodes) {
  for (const int code : {0, 3, 64, 70, 79, 137, 205}) {
    const Finished job = run("exit " + std::to_string(code), words({"--max-restarts", "0"}));
    EXPECT_EQ(job.exit_code, code) << job.all();
    EXPECT_EQ(calls().size(), 1u);
    EXPECT_EQ(job.err, code == 0 || code == 79
                           ? ""
                           : "error: " + (folder / "train").string() + " ended with exit code " +
                                 std::to_string(code) + "\n");
  }
  EXPECT_EQ(run("kill -9 $$", words({"--max-restarts", "0"})).exit_code, 137);
}

TEST_F(TasukiRun, ChecksFlagsFirst) {
  const Finished wrong = run("exit 0", with(words({}), {"--wrong"}));
  EXPECT_EQ(wrong.exit_code, 64);
  EXPECT_EQ(wrong.err, "error: unknown flag --wrong\n");
  EXPECT_EQ(
      run("exit 0", words({"--epoch", "5"})).err,
      "error: unknown flag --epoch (--help all lists all flags; usage: tasuki-run [flags] PROGRAM "
      "[its flags])\n");
  const Finished help = run("exit 0", with(words({}), {"--help"}));
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.out, "how to train\n");
  EXPECT_EQ(run("exit 0", with(words({}), {"--help=rate"})).out, "how to train\n");
  const Finished about = run("exit 0", {TASUKI_RUN, "-np", "2", "--help", "restarts"});
  EXPECT_EQ(about.exit_code, 0);
  EXPECT_THAT(about.out, ::testing::StartsWith("Failures:\n      --max-restarts R "));
  const Finished screen = run("exit 0", {TASUKI_RUN, "--help", "-np", "2"});
  EXPECT_EQ(screen.exit_code, 0);
  EXPECT_THAT(screen.out, HasSubstr("--np N"));
  const Finished many = run("exit 0", {TASUKI_RUN, "-np", "99999", folder / "train"});
  EXPECT_EQ(many.exit_code, 64);
  EXPECT_THAT(many.err, HasSubstr("ranks on this machine (128 for each of "));
  const Finished missing = run("exit 0", {TASUKI_RUN, folder / "none"});
  EXPECT_EQ(missing.exit_code, 66);
  EXPECT_THAT(missing.err, HasSubstr("there is no program " + (folder / "none").string()));
  const Finished crashed = run("exit 0", with(words({}), {"--crash"}));
  EXPECT_EQ(crashed.exit_code, 139);
  EXPECT_EQ(crashed.err, "error: " + (folder / "train").string() +
                             " --print-config ended with exit code 139; expected its settings\n");
  const Finished conflict = run("exit 0", {TASUKI_RUN, TRAIN_MNIST, "--dtype", "fp16"});
  EXPECT_EQ(conflict.exit_code, 64) << conflict.all();
  EXPECT_THAT(conflict.err, ::testing::StartsWith("error: --dtype fp16: CPUs compute"));
  const Finished printed = run("exit 0", words({"--print-command"}));
  EXPECT_THAT(printed.out, HasSubstr(has_hydra() ? "mpirun -np 2 "
                                     : is_orte   ? "mpirun -np 2 --tune "
                                                 : "mpirun -np 2 --prtemca "));
  EXPECT_FALSE(fs::exists(folder / "calls"));
}

// A clock that is set meanwhile, or another host's, does not change an age.
TEST_F(TasukiRun, PassesTheJobsAgeToEachStart) {
  const Finished job =
      run("echo $TASUKI_JOB_AGE > age$n; [ $n = 2 ] || exit 70", words({"--max-restarts", "1"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  const double first = std::stod(read("age1")), second = std::stod(read("age2"));
  EXPECT_GE(first, 0);
  EXPECT_GE(second, first + 1) << "the wait before the first restart";
  EXPECT_LE(second, job.seconds);
}

// PRRTE then ends with 0.
TEST_F(TasukiRun, RestartsAfterALostHost) {
  const std::string lost = rule +
                           "\\nPRTE has lost communication with a remote daemon.\\n\\n"
                           "  HNP daemon   : [prterun-a-15@0,0] on node a\\n"
                           "  Remote daemon: [prterun-a-15@0,1] on node b\\n" +
                           rule + "\\n\\0";
  const Finished job =
      run("take " + out.string() + "; [ $n = 2 ] || { printf '%b' '" + lost + "' >&2; }",
          words({"--max-restarts", "1"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(calls().size(), 2u);
  EXPECT_THAT(job.err,
              HasSubstr("the job failed with exit code 205 (error: the connection to b was "
                        "lost); restart 1 of 1"));
}

// In the folder that the program took; with the error as the last line.
TEST_F(TasukiRun, RestartsAfterFailures) {
  const std::string taken = (folder / "result-2").string();
  const Finished job =
      run("printf '<%s>' \"$@\" > words$n; if [ $n = 1 ]; then take " + taken + "; touch " + taken +
              "/snapshot_iter_40\n"
              "  printf '%s\\n' " +
              rule +
              " 'mpirun noticed that process rank 1 with PID 0 on node h exited "
              "on signal 9 (Killed).' " +
              rule + " >&2; exit 137; fi",
          with(words({}), {"--note", "a  'b'", "--", "-x y"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 2u);
  EXPECT_THAT(read("words2"), ::testing::EndsWith("<--note><a  'b'><--out><" + taken +
                                                  "><--resume><auto><--><-x y>"));
  EXPECT_EQ(job.err,
            "tasuki-run: the job failed with exit code 137 (rank 1 on h: ended by signal 9 "
            "(Killed)); restart 1 of 3 at once from " +
                taken +
                "/snapshot_iter_40, iteration 40\n"
                "tasuki-run: finished after 2 starts\n");
  const Events events(taken);
  EXPECT_THAT(events.names(), ElementsAre("start", "failure", "restart", "start", "end"));
  EXPECT_THAT(events[0].at("command").get<std::string>(), HasSubstr("mpirun -np 2"));
  EXPECT_EQ(events[1].at("exit_code"), 137);
  EXPECT_EQ(events[1].at("rank"), 1);
  EXPECT_EQ(events[1].at("host"), "h");
  EXPECT_EQ(events[1].at("np"), 2);
  EXPECT_EQ(events[2].at("number"), 1);
  EXPECT_EQ(events[2].at("iteration"), 40);
  EXPECT_EQ(events[4].at("exit_code"), 0);
}

TEST_F(TasukiRun, GivesUpAfterRepeatedFailuresWithoutProgress) {
  const std::string error = "rank 1 on h: broken\n";
  const Finished job =
      run("take " + out.string() +
              "; [ $n = 3 ] || save $n\n"
              "printf 'rank 1 on h: broken\\n" +
              rule + "\\nMPI_ABORT was invoked on rank 1\\n" + rule + "\\n' >&2; exit 70",
          words({"--max-restarts", "1"}));
  EXPECT_EQ(job.exit_code, 70) << job.all();
  EXPECT_EQ(calls().size(), 3u);
  EXPECT_EQ(count_of(job.err, "restart 1 of 1 at once"), 2) << "progress begins the count anew";
  EXPECT_EQ(count_of(job.err, "MPI_ABORT"), 0) << job.err;
  EXPECT_THAT(job.err,
              ::testing::EndsWith("giving up after 1 restart without progress (--max-restarts)\n"
                                  "tasuki-run: continue with --out " +
                                  out.string() + " --resume auto\n" + error));
}

// Another start would meet the same.
TEST_F(TasukiRun, DoesNotRetryUnwritableOutput) {
  const std::string error = "error: output folder x is in use by another job (pid 1 on h)\n";
  const Finished job =
      run("take " + out.string() + "; save 1; printf '" + error + "' >&2; exit 73", words({}));
  EXPECT_EQ(job.exit_code, 73) << job.all();
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(count_of(job.err, "restart"), 0) << job.err;
  EXPECT_THAT(job.err, ::testing::EndsWith("tasuki-run: continue with --out " + out.string() +
                                           " --resume auto\n" + error));
}

// The output folder may come from somebody else.
TEST_F(TasukiRun, DoesNotWriteIncidentsThroughALink) {
  write_file(folder / "theirs", "keep this");
  fs::create_directories(out);
  fs::create_symlink(folder / "theirs", out / "incidents.jsonl");
  const Finished job = run("take " + out.string(), words({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(job.err, "tasuki-run: warning: cannot write " + (out / "incidents.jsonl").string() +
                         ": expected a regular file, found a link; remove it\n");
  EXPECT_EQ(read("theirs"), "keep this");
}

TEST_F(TasukiRun, IgnoresAPipeNamedAboutJson) {
  fs::create_directories(out);
  ASSERT_EQ(mkfifo((out / "about.json").c_str(), 0600), 0);
  const Finished job = run("take " + out.string() + "-2", words({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_THAT(Events(out.string() + "-2").names(), ElementsAre("start", "end"));
}

// With --resume auto, in a folder in which something was saved before.
class ResumedRun : public TasukiRun {
 protected:
  ResumedRun() {
    fs::create_directories(out);
    std::ofstream(out / "snapshot_iter_5").close();
    script(
        "train",
        "#!/bin/bash\n# --print-config\nprintf '%s\\n' '# train 1; read back with --config FILE' "
        "'out = " +
            out.string() + "' 'resume = auto'\n");
  }
};

TEST_F(ResumedRun, DoesNotCountEarlierResultsAsProgress) {
  const Finished job =
      run("take " + out.string() + "; [ $n = 2 ] || exit 70", words({"--max-restarts", "1"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "restart 1 of 1 in 1 s from"), 1) << job.err;
}

TEST_F(ResumedRun, CanFailBeforeTakingTheFolder) {
  const Finished job = run("[ $n = 2 ] || exit 74", words({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "restart 1 of 3 in 1 s from " + out.string() +
                                  "/snapshot_iter_5, iteration 5\n"),
            1)
      << job.err;
}

TEST_F(TasukiRun, NamesKilledLauncherAsTheCause) {
  const Finished job =
      run("take " + out.string() + "; kill -KILL $$", words({"--max-restarts", "1"}));
  const std::string cause = "error: mpirun was ended by signal 9 (Killed)";
  EXPECT_EQ(job.exit_code, 137) << job.all();
  EXPECT_EQ(count_of(job.err, "exit code 137 (" + cause + "); restart 1 of 1"), 1) << job.err;
  EXPECT_THAT(job.err, ::testing::EndsWith('\n' + cause + '\n'));
  EXPECT_EQ(Events(out)[1].at("cause"), cause);
}

// One that lives on, on another host: nothing is started beside it.
class LockedFolder : public TasukiRun {
 protected:
  // Holds the folder's lock from the first start on, until there is a file `free`.
  std::function<void(pid_t)> hold() {
    return [this](pid_t) {
      if (!holder_ && fs::exists(out / "about.json"))
        holder_ = FileLock::try_lock(out / ".lock", "pid 4711 on node2\n");
      if (fs::exists(folder / "free")) holder_.reset();
    };
  }
  const std::string plan = "take " + out.string() +
                           "; save 1; [ $n = 2 ] && exit; while flock -n " +
                           (out / ".lock").string() + " true; do sleep 0.02; done; exit 74";
  std::optional<FileLock> holder_;
  std::optional<double> waits_since_;
  const std::string still_writes =
      "a process of the job (pid 4711 on node2) still writes to " + out.string();
};

TEST_F(LockedFolder, IsAwaited) {
  auto holding = hold();
  const Finished job = run(plan, words({}), [&](pid_t supervisor) {
    holding(supervisor);
    if (has_said(out, "failure") && !waits_since_) waits_since_ = shared_clock();
    if (waits_since_ && shared_clock() > *waits_since_ + 1.3) std::ofstream(folder / "free");
  });
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(calls().size(), 2u);
  EXPECT_EQ(count_of(job.err, still_writes + "; waiting for its end at most 600 s"), 1) << job.err;
}

TEST_F(LockedFolder, IsAnErrorIfItStaysLocked) {
  const Finished job = run(plan, words({"--host-timeout", "0.5"}), hold());
  EXPECT_EQ(job.exit_code, 73) << job.all();
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, ::testing::EndsWith("\ntasuki-run: continue with --out " + out.string() +
                                           " --resume auto\nerror: " + still_writes +
                                           " after 0.5 s (--host-timeout); end it first\n"));
  EXPECT_EQ(Events(out).names().back(), "end");
}

TEST_F(TasukiRun, StartsOtherProgramsUnchanged) {
  EXPECT_EQ(run("exit 5", words({}, "other")).exit_code, 5);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(run("exit 5", words({"--max-restarts", "1"}, "other")).exit_code, 5);
  ASSERT_EQ(calls().size(), 2u);
  EXPECT_EQ(calls()[0], calls()[1]);
}

// Even if they know the word --print-config.
TEST_F(TasukiRun, ToleratesOtherProgramsThatPrintText) {
  script("other", "#!/bin/bash\n# not --print-config\necho own text\n");
  const Finished job = run("echo ranks", with(words({}, "other"), {"a b", "--", "-x"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(job.out, "ranks\n");
  EXPECT_EQ(job.err, "tasuki-run: " + (folder / "other").string() +
                         " is not a program of Tasuki: signals are passed on to it, and it is not "
                         "restarted\n");
  ASSERT_EQ(calls().size(), 1u);
  EXPECT_THAT(calls()[0], ::testing::EndsWith("other a b -- -x"));
}

// Not even where another program's failures are.
TEST_F(TasukiRun, DoesNotRetryRefusals) {
  const std::string slots = rule + "\nThere are not enough slots available in the system\n" + rule;
  const Finished job =
      run("printf '%s\\n' '" + slots + "' >&2; exit 1", words({"--max-restarts", "2"}, "other"));
  EXPECT_EQ(job.exit_code, 1);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, ::testing::EndsWith(slots + "\nerror: mpirun could not start the ranks "
                                                   "(exit code 1); see its message above\n"));
}

TEST_F(TasukiRun, DoesNotRetryRejectedFlags) {
  const Finished job = run("echo 'unknown option' >&2; exit 1", words({}));
  EXPECT_EQ(job.exit_code, 1);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(
      job.err,
      "unknown option\nerror: mpirun could not start the ranks (exit code 1); see its message "
      "above\n");
}

TEST_F(TasukiRun, LeavesNothingBehind) {
  const auto is_alive = [&](const std::string& name) {
    return kill(std::stoi(read(name)), 0) == 0;
  };
  const Finished job =
      run("setsid sleep 100 & echo $! > left; exit 3", words({"--max-restarts", "0"}));
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_FALSE(is_alive("left"));

  // Also where tasuki-run itself is killed: the launcher is told to end.
  run("trap 'touch told; exit 1' TERM; touch ready; while :; do sleep 0.05; done", words({}),
      when_ready({SIGKILL}));
  EXPECT_TRUE(appears("told"));
}

TEST_F(TasukiRun, SupportsSrun) {
  const Finished job = run("exit 0", words({"--launcher", "srun"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 1u);
  EXPECT_EQ(calls()[0], std::string("srun --kill-on-bad-exit=1 --ntasks=2 --mpi=") +
                            (has_hydra() ? "pmi2 " : "pmix ") + (folder / "train").string());
}

// Open MPI itself says that in two pages, or hangs where the disk is full.
TEST_F(TasukiRun, NamesUnusableMpiSessionFolderBeforeStart) {
  if (has_hydra()) GTEST_SKIP() << "this MPI keeps no files of a job in a folder";
  const auto with_folder = [&](const std::string& name) {
    return run("", with({"env", name}, words({"--max-restarts", "3"})));
  };
  const std::string parameter = (is_orte ? "orte" : "prte") + std::string("_tmpdir_base");
  for (const std::string& name : {std::string("TMPDIR=/proc/none"), parameter + "=/proc/none/2"}) {
    const std::string of_runtime = is_orte ? "OMPI_MCA_" : "PRTE_MCA_";
    const Finished job = with_folder(name.starts_with("TMPDIR") ? name : of_runtime + name);
    EXPECT_EQ(job.exit_code, 73);
    EXPECT_EQ(
        job.err,
        "error: " + name +
            ": no folder can be made there: No such file or directory; Open MPI keeps the files "
            "of a job in this folder: set TMPDIR to one on a disk with room\n");
    EXPECT_EQ(calls().size(), 0u);
  }
  // Open MPI makes a folder that is missing.
  EXPECT_EQ(with_folder("TMPDIR=" + (folder / "to/be/made").string()).exit_code, 0);
  EXPECT_EQ(calls().size(), 1u);
}

TEST_F(TasukiRun, PrefersMpirunsSessionFolderArgument) {
  if (has_hydra()) GTEST_SKIP() << "this MPI keeps no files of a job in a folder";
  for (const std::string name : {"orte_tmpdir_base", "orte_local_tmpdir_base"}) {
    const auto with_base = [&](const fs::path& base) {
      return run("", with({"env", "TMPDIR=/proc/none"},
                          words({"--mpirun-args", "--mca " + name + " " + base.string()})));
    };
    const Finished job = with_base(folder.path());
    EXPECT_EQ(job.exit_code, 0) << job.err;
    EXPECT_EQ(calls().size(), 1u);
    EXPECT_THAT(with_base("/proc/none").err, HasSubstr("rte_tmpdir_base=/proc/none: "));
    EXPECT_EQ(calls().size(), 0u);
  }
  const fs::path settings = folder / (is_orte ? ".openmpi" : ".prte");
  fs::create_directory(settings);
  write_file(settings / "mca-params.conf",
             (is_orte ? "orte_tmpdir_base = " : "prte_tmpdir_base = ") + folder.path().string());
  const Finished job =
      run("", with({"env", "TMPDIR=/proc/none", "HOME=" + folder.path().string()}, words({})));
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_F(TasukiRun, NamesFullMpiSessionDiskBeforeStart) {
  if (has_hydra()) GTEST_SKIP() << "this MPI keeps no files of a job in a folder";
  fs::create_directory(folder / "disk");
  const std::string mounted = "mount -t tmpfs -o size=4m disk '" + (folder / "disk").string() +
                              "' 2>/dev/null || exit 77; exec \"$@\"";
  const Finished job = run("", with({"unshare", "--mount", "--map-root-user", "bash", "-c", mounted,
                                     "bash", "env", "TMPDIR=" + (folder / "disk").string()},
                                    words({})));
  if (job.exit_code == 77 || count_of(job.err, "unshare: ") > 0)
    GTEST_SKIP() << "this machine allows no mounts in a namespace";
  EXPECT_EQ(job.exit_code, 73);
  EXPECT_THAT(job.err, HasSubstr("/disk: 4.2 MB are free there, and 12.6 MB are needed; "));
  EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
  EXPECT_EQ(calls().size(), 0u);
}

}  // namespace
}  // namespace tasuki::testing
