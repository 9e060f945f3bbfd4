// Jobs that are asked to stop by a signal.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "communicator/mpi/open_mpi.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/snapshot_hash.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int saved = 79;
// Open MPI 5's mpirun, told to end, shows nothing that ranks print afterwards.
constexpr int last_words = open_mpi_version < 5 ? 1 : 0;

class StopSignal : public ::testing::Test {
 protected:
  StopSignal() { write_digits(data, 480, 100); }

  // Ten steps an epoch.
  Words train(const std::string& out, const Words& flags) const {
    Words words = {TRAIN_MNIST, "--data",    data, "--unit", "32",        "--global-batch",
                   "48",        "--threads", "1",  "--out",  folder / out};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  // Runs a job that gets the signal once this file is there; again and again with `repeat`.
  static Finished stop(const Words& words, int signal, const fs::path& sign, bool repeat = false) {
    bool is_sent = false;
    return run_program(words, 60, {}, [&](pid_t program) {
      if ((is_sent && !repeat) || !fs::exists(sign)) return;
      is_sent = true;
      // Ctrl-C reaches the whole process group of a terminal's foreground.
      kill(signal == SIGINT ? -program : program, signal);
    });
  }
  // The job was stopped, printed a line about it, and a continued run gets the weights of an
  // uninterrupted one.
  void expect_saved(const Finished& job, const std::function<Words(const Words&)>& launched) {
    EXPECT_EQ(job.exit_code, saved) << job.all();
    EXPECT_EQ(count_of(job.err, "stopped and saved after iteration "), 1) << job.all();
    const std::string flag = "continue with --resume ";
    const std::size_t begin = job.err.find(flag);
    ASSERT_NE(begin, std::string::npos) << job.all();
    const std::string file =
        job.err.substr(begin + flag.size(), job.err.find('\n', begin) - begin - flag.size());
    ASSERT_TRUE(fs::exists(file)) << file;
    const auto epochs = [&](const std::string& out, const Words& flags) {
      // A few more epochs than were done.
      const std::string name = fs::path(file).filename();
      const int iterations = std::stoi(name.substr(name.rfind('_') + 1)) + 25;
      Words all = {"--epoch", "100000", "--max-iterations", std::to_string(iterations), "--quiet"};
      all.insert(all.end(), flags.begin(), flags.end());
      const Finished run = run_program(launched(train(out, all)));
      EXPECT_EQ(run.exit_code, 0) << run.all();
      return hash_of_weights(folder / (out + "/snapshot_iter_" + std::to_string(iterations)));
    };
    EXPECT_EQ(epochs("second", {"--resume", file}), epochs("undisturbed", {}));
  }

  TemporaryFolder folder;
  std::string data = folder / "data";
};

const Words endless = {"--epoch", "100000", "--log-every", "1"};

TEST_F(StopSignal, SavesWhenTheLauncherForwardsIt) {
  const auto launched = [](const Words& words) { return mpirun(2, words); };
  const Finished job = stop(launched(train("first", endless)), SIGUSR1, folder / "first/log");
  expect_saved(job, launched);
}

TEST_F(StopSignal, SavesASingleProcess) {
  const auto alone = [](const Words& words) { return words; };
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const Finished job = stop(train("first", endless), signal, folder / "first/log");
    expect_saved(job, alone);
    for (const char* const out : {"first", "second", "undisturbed"}) fs::remove_all(folder / out);
  }
}

// As after SIGUSR1; an earlier end is one as usual.
TEST_F(StopSignal, SavesAtTheJobsTimeLimit) {
  Words limited = endless;
  limited.insert(limited.end(), {"--time-limit", "1.5s"});
  for (const int np : {1, 2}) {
    const auto launched = [&](const Words& words) { return np == 1 ? words : mpirun(np, words); };
    const Finished job = run_program(launched(train("first", limited)));
    EXPECT_GE(job.seconds, 1.5);
    EXPECT_EQ(count_of(job.err, "the time limit of 1.5 s is reached: stopping\n"), 1) << job.all();
    expect_saved(job, launched);
    for (const char* const out : {"first", "second", "undisturbed"}) fs::remove_all(folder / out);
  }
  const Finished job =
      run_program(mpirun(2, train("first", {"--epoch", "1", "--time-limit", "1:00:00"})));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "time limit"), 0) << job.all();
}

// It passes the signals on, and waits.
TEST_F(StopSignal, SavesOnControlCAndSigtermUnderHydra) {
  if (!has_hydra()) GTEST_SKIP() << "Open MPI's mpirun kills the ranks";
  const auto launched = [](const Words& words) { return mpirun(2, words); };
  for (const int signal : {SIGINT, SIGTERM}) {
    const Finished job = stop(launched(train("first", endless)), signal, folder / "first/log");
    EXPECT_EQ(count_of(job.err, "stopping after this step; a second signal"), 1) << job.all();
    expect_saved(job, launched);
    for (const char* const out : {"first", "second", "undisturbed"}) fs::remove_all(folder / out);
  }
}

// mpirun's SIGTERM leaves no time to save.
TEST_F(StopSignal, NamesExistingSnapshotAfterControlC) {
  if (has_hydra()) GTEST_SKIP() << "Hydra leaves time to save";
  Finished job = stop(mpirun(2, train("first", endless)), SIGINT, folder / "first/log");
  EXPECT_NE(job.exit_code, 0);
  EXPECT_LT(job.seconds, 15 * patience());
  EXPECT_EQ(count_of(job.err, "the job was ended; there is no snapshot yet\n"), last_words)
      << job.all();

  Words saving = endless;
  saving.insert(saving.end(), {"--snapshot-every", "1"});
  job = stop(mpirun(2, train("second", saving)), SIGINT, folder / "second/snapshot_iter_20");
  EXPECT_NE(job.exit_code, 0);
  const std::string line = "the job was ended; continue from the last snapshot with --resume " +
                           (folder / "second/snapshot_iter_").string();
  EXPECT_EQ(count_of(job.err, line), last_words) << job.all();
}

TEST_F(StopSignal, EndsProcessAtOnceBeforeTraining) {
  const Finished job =
      stop({FAULTY_TRAINING, "0", "start", "loop", folder.path()}, SIGINT, folder / "time");
  EXPECT_EQ(job.exit_code, 128 + SIGINT) << job.all();
  EXPECT_EQ(job.err, "interrupted before the training began; nothing was saved\n");
}

TEST_F(StopSignal, EndsAllRanksBeforeTraining) {
  for (const int signal : {SIGUSR1, SIGINT}) {
    const Finished job = stop(mpirun(2, {FAULTY_TRAINING, "-1", "start", "loop", folder.path()}),
                              signal, folder / "time");
    EXPECT_NE(job.exit_code, 0);
    EXPECT_NE(job.exit_code, saved);
    const std::string line = "the job was ended before the training began; nothing was saved\n";
    EXPECT_EQ(count_of(job.err, line), signal == SIGUSR1 ? 1 : last_words) << job.all();
    std::filesystem::remove(folder / "time");
  }
}

// A program that trains nothing says nothing.
TEST_F(StopSignal, PrintsNothingInOtherPrograms) {
  const Finished job =
      stop({FAULTY_TRAINING, "0", "unannounced", "loop", folder.path()}, SIGINT, folder / "time");
  EXPECT_EQ(job.exit_code, 128 + SIGINT) << job.all();
  EXPECT_EQ(job.err, "");
}

// Those that come while it saves and after it.
TEST_F(StopSignal, SavesDespiteRepeatedSignals) {
  const Finished job = stop(train("first", endless), SIGUSR1, folder / "first/log",
                            /*repeat=*/true);
  EXPECT_EQ(job.exit_code, saved) << job.all();
  EXPECT_EQ(count_of(job.err, "stopped and saved after iteration "), 1) << job.all();
}

// In a step that never ends.
TEST_F(StopSignal, EndsProcessAtOnceWhenSentTwice) {
  const Finished job = stop({FAULTY_TRAINING, "0", "forward", "loop", folder.path()}, SIGINT,
                            folder / "time", /*repeat=*/true);
  EXPECT_EQ(job.exit_code, 128 + SIGINT) << job.all();
  EXPECT_EQ(job.err,
            "stopping after this step; a second signal ends the run at once\n"
            "interrupted; there is no snapshot yet\n");
}

}  // namespace
}  // namespace tasuki::testing
