// Where train_mnist writes its results: beside other jobs, after other runs, and when it cannot.
#include <algorithm>
#include <fstream>
#include <future>
#include <set>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "train_mnist_job.hpp"
#include "training/output_folder.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;
using Flags = std::vector<std::string>;

class Output : public TrainMnist {
 protected:
  // Without --overwrite.
  Flags words(const std::string& out, const Flags& flags) {
    Flags words = program(out, {});
    std::erase(words, "--overwrite");
    return with(words, flags);
  }
  Finished train(const std::string& out, const Flags& flags = {}) {
    Finished job = run_program(words(out, with({"--epoch", "1"}, flags)));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return job;
  }
  void expect_line(const Finished& job, const std::string& line) {
    EXPECT_EQ(count_of(job.all(), line), 1) << line << "\n--- in ---\n" << job.all();
  }
  bool has(const std::string& file) { return fs::exists(folder / file); }
};

// As many folders as jobs, each with one job's log and snapshot.
TEST_F(Output, SeparatesJobsThatStartTogether) {
  constexpr int jobs = 5;
  std::vector<std::future<Finished>> running;
  for (int i = 0; i < jobs; ++i) {
    const Flags flags = {"--epoch", std::to_string(i + 1), "--quiet"};
    const Flags command = i % 2 == 0 ? words("out", flags) : mpirun(2, words("out", flags));
    running.push_back(std::async(std::launch::async, [command] { return run_program(command); }));
  }
  for (auto& job : running) {
    const Finished finished = job.get();
    EXPECT_EQ(finished.exit_code, 0) << finished.all();
  }
  std::set<std::size_t> epochs;
  for (int i = 1; i <= jobs; ++i) {
    const std::string name = i == 1 ? "out" : "out-" + std::to_string(i);
    const auto log = read_log(name);
    ASSERT_FALSE(log.empty()) << name;
    epochs.insert(log.size());
    EXPECT_TRUE(has(name + "/snapshot_iter_" + json_text(log.back().at("iteration")))) << name;
    int snapshots = 0;
    for (const auto& file : fs::directory_iterator(folder / name))
      snapshots += file.path().filename().string().starts_with("snapshot") ? 1 : 0;
    EXPECT_EQ(snapshots, 1) << name;
  }
  EXPECT_EQ(epochs, (std::set<std::size_t>{1, 2, 3, 4, 5}));
  EXPECT_FALSE(has("out-" + std::to_string(jobs + 1)));
}

TEST_F(Output, GoesBesideOldResults) {
  expect_line(train("out"), "Output: " + (folder / "out").string() + "\n");
  const Finished second =
      run_program(mpirun(2, words("out", {"--epoch", "2", "--monitor", "0.05"})));
  EXPECT_EQ(second.exit_code, 0) << second.all();
  expect_line(second, "Output: " + (folder / "out-2").string() + " (" + (folder / "out").string() +
                          " is another run's)\n");
  expect_line(second, "results in " + (folder / "out-2\n").string());
  EXPECT_EQ(read_log("out").size(), 1u);
  EXPECT_EQ(read_log("out-2").size(), 2u);
  EXPECT_TRUE(has("out-2/monitor.1.csv")) << "rank 1 was not told";
  EXPECT_FALSE(has("out/monitor.1.csv")) << "rank 1 was told late";

  const Finished dry = train("out", {"--dry-run"});
  expect_line(dry, "Output: " + (folder / "out-3").string());
  EXPECT_FALSE(has("out-3"));

  fs::create_directories(folder / "out-3");
  std::ofstream(folder / "out-3/notes") << "no result";
  expect_line(train("out"), "results in " + (folder / "out-3\n").string());
}

// A job that has written nothing yet.
TEST_F(Output, GoesBesideAJobThatHasJustStarted) {
  OutputFolder begun(folder / "out");
  begun.take(OldResults::leave);
  expect_line(train("out"), "results in " + (folder / "out-2\n").string());
  EXPECT_FALSE(has("out/log"));
}

TEST_F(Output, GoesBesideResultsOfAnotherProgram) {
  train("out");
  const std::string log = read_file(folder / "out/log");
  const Finished lenet = run_program({TRAIN_LENET, "--data", data, "--max-iterations", "1",
                                      "--test-examples", "10", "--out", folder / "out"});
  EXPECT_EQ(lenet.exit_code, 0) << lenet.all();
  expect_line(lenet, "results in " + (folder / "out-2\n").string());
  EXPECT_EQ(read_file(folder / "out/log"), log);
  EXPECT_FALSE(has("out/snapshot_iter_1"));
  EXPECT_TRUE(has("out-2/snapshot_iter_1"));
}

TEST_F(Output, OverwriteReplacesTheResults) {
  train("out", {"--max-iterations", "3"});
  EXPECT_TRUE(has("out/snapshot_iter_3"));
  train("out", {"--overwrite", "--max-iterations", "2"});
  EXPECT_TRUE(has("out/snapshot_iter_2"));
  EXPECT_FALSE(has("out/snapshot_iter_3"));
  EXPECT_FALSE(has("out/checkpoints/iter_3"));
  EXPECT_FALSE(has("out-2"));
  // A run that ends before it trains leaves old results alone.
  fs::resize_file(data + "/train-images-idx3-ubyte", 1000);
  const Finished failed = run_program(words("out", {"--overwrite"}));
  EXPECT_EQ(failed.exit_code, static_cast<int>(ErrorKind::data)) << failed.all();
  EXPECT_TRUE(has("out/snapshot_iter_2"));
}

TEST_F(Output, ContinuesInTheSnapshotsFolder) {
  train("out");
  train("out");
  const std::string snapshot = folder / "out-2/snapshot_iter_5";
  ASSERT_TRUE(fs::exists(snapshot));
  const Flags resumed = {TRAIN_MNIST, "--data", data,      "--unit",   "32",
                         "--epoch",   "2",      "--quiet", "--resume", snapshot};
  EXPECT_EQ(run_program(resumed).exit_code, 0);
  EXPECT_EQ(read_log("out-2").size(), 2u);
  EXPECT_EQ(read_log("out").size(), 1u);
  // By any name of the folder, and with the folder for the snapshot.
  fs::create_directory_symlink(folder / "out-2", folder / "link");
  EXPECT_EQ(run_program(with(resumed, {"--out", folder / "link/", "--epoch", "3"})).exit_code, 0);
  EXPECT_EQ(read_log("out-2").size(), 3u);
  EXPECT_EQ(run_program(with(resumed, {"--resume", folder / "out-2", "--epoch", "4"})).exit_code,
            0);
  EXPECT_EQ(read_log("out-2").size(), 4u);
  EXPECT_FALSE(has("out-3"));
  const Finished both = run_program(with(resumed, {"--overwrite"}));
  EXPECT_EQ(both.exit_code, static_cast<int>(ErrorKind::usage));
  expect_line(both, "--overwrite and --resume");
}

TEST_F(Output, LeavesOtherRunsAloneWhenResuming) {
  train("mine");
  train("other", {"--seed", "1", "--epoch", "2"});
  const std::string log = read_file(folder / "other/log");
  const std::string newest = folder / "other/snapshot_iter_10";
  ASSERT_TRUE(fs::exists(newest));
  for (const std::string from : {"mine/snapshot_iter_5", "mine"}) {
    const Flags flags = {"--resume", folder / from, "--epoch", "2"};
    const Finished dry = run_program(words("other", with(flags, {"--dry-run"})));
    expect_line(dry, "Output: " + (folder / "other-2").string());
    const Finished job = run_program(mpirun(2, words("other", flags)));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(read_file(folder / "other/log"), log);
    EXPECT_FALSE(has("other/snapshot_iter_8"));
    EXPECT_EQ(read_log("other-2").size(), 2u);
    EXPECT_TRUE(has("other-2/snapshot_iter_8"));
    fs::remove_all(folder / "other-2");
  }
}

TEST_F(Output, RejectsFoldersInUseAndNamesTheirHolder) {
  auto running = std::async(std::launch::async, [this] {
    return run_program(words("out", {"--epoch", "100000", "--quiet"}), 20);
  });
  while (!has("out/log")) usleep(10'000);
  for (const int np : {1, 2}) {
    const Finished job = run_program(mpirun(np, words("out", {"--overwrite"})));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::cannot_write)) << job.all();
    expect_line(job, "is in use by another job (pid ");
    EXPECT_EQ(job.out, "");
  }
  // The first job had not noticed anything.
  std::ifstream holder(folder / "out/.lock");
  std::string word, pid;
  holder >> word >> pid;
  kill(std::stoi(pid), SIGKILL);
  EXPECT_EQ(running.get().exit_code, 128 + SIGKILL);
  train("out", {"--overwrite"});
  EXPECT_EQ(read_log("out").size(), 1u);
}

TEST_F(Output, SavesTheModelDespiteALostFolder) {
  auto job = std::async(std::launch::async, [this] {
    return run_program(mpirun(
        2, words("out", {"--epoch", "600", "--monitor", "0.05", "--checkpoint-every", "50it"})));
  });
  while (!has("out/log")) usleep(1'000);
  fs::remove_all(folder / "out");
  const Finished finished = job.get();
  EXPECT_EQ(finished.exit_code, 0) << finished.all();
  expect_line(finished, "was removed while the run writes to it");
  EXPECT_EQ(read_log("out").size(), 600u);
  EXPECT_TRUE(has("out/snapshot_iter_1800"));
  EXPECT_TRUE(has("out/checkpoints/iter_1800/manifest.json"));
  EXPECT_TRUE(has("out/about.json"));
  for (const int rank : {0, 1})
    EXPECT_TRUE(has("out/monitor." + std::to_string(rank) + ".csv")) << rank;
}

// MPI and shared memory have room, a snapshot has not. mpirun itself cannot work with such a limit.
TEST_F(Output, ReportsFileSizeLimitsAsErrors) {
  for (const int np : {1, 2}) {
    const Flags limited = {"bash", "-c", "ulimit -f 40960; exec \"$@\"", "limited"};  // 40 MiB
    const Finished job = run_program(
        mpirun(np, with(limited, {TRAIN_MNIST, "--data", data, "--unit", "2000", "--quiet",
                                  "--max-iterations", "1", "--out", folder / "out"})));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::cannot_write)) << job.all();
    expect_line(job, "error: cannot write ");
    expect_line(job, "File too large");
  }
}

}  // namespace
}  // namespace tasuki::testing
