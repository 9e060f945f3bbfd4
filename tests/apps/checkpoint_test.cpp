// Jobs that are killed, stopped, damaged or without room on the disk, and what goes on from their
// checkpoints.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>
#include <fstream>

#include <cstring>

#include "core/error.hpp"
#include "core/file.hpp"
#include "resumed_job.hpp"
#include "tests/support/watched_folder.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;

// The processes of a program that `launcher` has started.
std::vector<pid_t> children_of(pid_t launcher, const std::string& name) {
  std::vector<pid_t> found;
  for (const auto& each : fs::directory_iterator("/proc")) {
    std::ifstream stat(each.path() / "stat");
    std::string pid, command, state;
    pid_t parent = 0;
    if (stat >> pid >> command >> state >> parent && parent == launcher &&
        command == '(' + name + ')')
      found.push_back(std::stoi(pid));
  }
  return found;
}

class Checkpoints : public ResumedJob {
 protected:
  fs::path checkpoint(const std::string& out, int iteration) const {
    return folder / fmt::format("{}/checkpoints/iter_{}", out, iteration);
  }
  // Weights, optimizer and position in a run's last snapshot, bit for bit.
  std::map<std::string, std::string> state_of(const std::string& out, int iteration) const {
    const NpzFile file(folder / fmt::format("{}/snapshot_iter_{}", out, iteration));
    std::map<std::string, std::string> state;
    for (const std::string& name : file.names())
      if (name.starts_with("updater/")) {
        const NpzValue value = file.read(name);
        const auto* const array = std::get_if<Tensor>(&value);
        state[name] = array ? std::string(static_cast<const char*>(array->raw()), array->bytes())
                            : std::get<std::string>(value);
      }
    return state;
  }
  static void flip_byte(const fs::path& path) {
    std::string text = read_file(path);
    text[text.size() / 2] ^= 1;
    std::ofstream(path, std::ios::binary) << text;
  }
};

TEST_F(Checkpoints, LimitLossFromAKilledRank) {
  const Flags flags = {"-b", "24", "--epoch", "100", "--quiet"};  // 1000 iterations
  run(2, "undisturbed", flags);
  const Flags saving = with(flags, {"--checkpoint-every", "50it", "--resume", "auto"});
  bool is_killed = false;
  const Finished killed =
      run_program(mpirun(2, program("killed", saving)), 60, {}, [&](pid_t launcher) {
        if (is_killed || !fs::exists(folder / "killed/latest")) return;
        is_killed = true;
        for (const pid_t rank : children_of(launcher, "train_mnist"))
          if (kill(rank, SIGKILL) == 0) break;
      });
  EXPECT_NE(killed.exit_code, 0) << killed.all();
  const Finished resumed = run(2, "killed", saving);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_EQ(state_of("killed", 1000), state_of("undisturbed", 1000));
  for (const auto& each : fs::directory_iterator(folder / "killed/checkpoints"))
    EXPECT_NE(each.path().extension(), ".tmp") << each.path();
}

// Whatever ends it before its first step, like a kill while data are read: here its about.json
// cannot be written.
TEST_F(Checkpoints, AreRecordedWhenARunResumesFromThem) {
  const Flags flags = {"-b", "48", "--quiet"};
  run(1, "out", with(flags, {"--epoch", "2", "--checkpoint-every", "5it"}));
  const auto latest = [&] { return read_file(folder / "out/latest"); };
  const std::string newest = latest();
  const auto go_back = [&](const Flags& more) {
    return run(1, "out",
               with(with(flags, {"--epoch", "4", "--resume", checkpoint("out", 10)}), more))
        .exit_code;
  };
  EXPECT_EQ(go_back({"--seed", "9"}), static_cast<int>(ErrorKind::config));
  EXPECT_EQ(latest(), newest) << "a run that is refused goes on from nothing";
  fs::remove(folder / "out/about.json");
  fs::create_directories(folder / "out/about.json/in_the_way");
  EXPECT_EQ(go_back({}), static_cast<int>(ErrorKind::cannot_write));
  EXPECT_EQ(latest(), "checkpoints/iter_10\n");
  expect_once(run(1, "out", with(flags, {"--epoch", "4", "--resume", "auto", "--dry-run"})),
              "Resumed: " + checkpoint("out", 10).string() + ", epoch 1, iteration 10\n");
}

// What --dry-run says, and what a run takes that saves in the background.
TEST_F(Checkpoints, AreWrittenFromACopyCountedInThePlan) {
  // Weights of 784 x 2000, 2000 x 2000 and 2000 x 10, and twice as many moments of Adam.
  constexpr double weights = 4e-6 * 5'588'000;  // MB
  const auto number_before = [](const std::string& text, const std::string& unit) {
    const auto end = text.find(unit);
    EXPECT_NE(end, text.npos) << unit << "\n--- in ---\n" << text;
    const auto begin = text.find_last_of(' ', end - 1);
    return end == text.npos ? 0.0 : std::stod(text.substr(begin + 1));
  };
  const auto expect_as_planned = [&](int np, const Flags& more) {
    const Flags flags =
        with({"-b", "48", "--unit", "2000", "--max-iterations", "12", "--checkpoint-every", "0.1s"},
             more);
    const Finished plan = run(np, "plan", with(flags, {"--dry-run"}));
    const Finished real = run(np, "real", with(flags, {"--overwrite"}));
    const double planned = number_before(plan.out, " MB in all\n");
    const double taken = number_before(real.out, " MB of memory per rank");
    EXPECT_NEAR(taken / planned, 1, 0.2) << plan.out << real.out;
    return plan.out;
  };
  const std::string of_one = expect_as_planned(1, {});
  EXPECT_NEAR(number_before(of_one, " MB copy for checkpoints"), 3 * weights, 0.2);
  EXPECT_EQ(count_of(of_one, "gathered"), 0);
  // Each rank copies half of the states, and rank 0 has all of them for the snapshot at the end.
  const std::string of_two = expect_as_planned(2, {"--shard-optimizer"});
  EXPECT_NEAR(number_before(of_two, " MB copy for checkpoints"), 2 * weights, 0.2);
  EXPECT_NEAR(number_before(of_two, " MB states gathered on rank 0"), 2 * weights, 0.2);
  // The largest matrix is most of this network's weights, so that two slots are larger than all of
  // its gradients.
  const std::string divided = expect_as_planned(2, {"--shard", "gradients"});
  EXPECT_GT(number_before(divided, " MB gradients"), weights);
  EXPECT_EQ(count_of(run(1, "plan", {"--dry-run", "--checkpoint-every", "none"}).out,
                     "copy for checkpoints"),
            0);
}

// First the manifest, then the files, to check and to load them.
TEST_F(Checkpoints, AreOpenedOnceWhenResuming) {
  const Flags flags = {"-b", "48", "--quiet"};
  run(1, "out", with(flags, {"--epoch", "1"}));
  const std::string from = checkpoint("out", 10);
  const WatchedFolder saved(from, IN_OPEN);
  const Finished resumed = run(1, "out", with(flags, {"--epoch", "2", "--resume", from}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.all();
  const auto events = saved.names();
  EXPECT_EQ(std::ranges::count(events, "manifest.json"), 1);
  EXPECT_EQ(std::ranges::count(events, "state.npz"), 1);
}

TEST_F(Checkpoints, ResumeShardedStatesOnAnyRanks) {
  const Flags flags = {"--shards", "12", "--global-batch", "120", "--log-every", "1", "--quiet"};
  const Flags sharded = with(flags, {"--shard-optimizer", "--epoch", "3"});
  const auto whole = values_of(log_of(4, "whole", sharded), "main/loss");
  log_of(4, "first", with(sharded, {"--max-iterations", "6"}));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_TRUE(fs::exists(checkpoint("first", 6) / fmt::format("optimizer.{}.npz", rank)));
  for (const int np : {1, 2, 3}) {
    SCOPED_TRACE(np);
    const auto log =
        log_of(np, "second", with(flags, {"--epoch", "3", "--resume", checkpoint("first", 6)}));
    expect_near(values_of(log, "main/loss"), whole, 1e-5);
    fs::remove_all(folder / "second");
  }
}

TEST_F(Checkpoints, CanBeNamedByAFileInThem) {
  run(1, "first", {"-b", "48", "--max-iterations", "7"});
  const std::string whole = checkpoint("first", 7);
  for (const char* const file : {"state.npz", "manifest.json"})
    expect_once(run(1, "second", {"-b", "48", "--dry-run", "--resume", whole + '/' + file}),
                "Resumed: " + whole + ", epoch 0, iteration 7\n");
  const Finished folders = run(1, "second", {"-b", "48", "--dry-run", "--init", folder / "first"});
  EXPECT_EQ(folders.exit_code, static_cast<int>(ErrorKind::missing)) << folders.all();
  EXPECT_EQ(count_of(folders.err, "the last one: " + (folder / "first/latest").string() + ")\n"), 1)
      << folders.all();
}

TEST_F(Checkpoints, AreSkippedWhenDamaged) {
  const Flags flags = {"-b", "48", "--checkpoint-every", "5it", "--max-iterations", "17"};
  run(1, "first", flags);
  fs::remove(folder / "first/snapshot_iter_17");
  flip_byte(checkpoint("first", 17) / "state.npz");
  fs::resize_file(checkpoint("first", 15) / "manifest.json", 100);
  for (const std::string& from : Flags{"auto", folder / "first"}) {
    const Finished job =
        run(1, "first", {"-b", "48", "--resume", from, "--dry-run", "--max-iterations", "30"});
    expect_once(job, "Resumed: " + checkpoint("first", 10).string() + ", epoch 1, iteration 10\n");
    for (const int damaged : {17, 15})
      EXPECT_EQ(count_of(job.err, "warning: " + checkpoint("first", damaged).string()), 1)
          << job.all();
    EXPECT_EQ(count_of(job.err, "; using the one before it\n"), 2) << job.all();
  }
  for (const int last : {10, 17, 15})
    fs::resize_file(checkpoint("first", last) / "manifest.json", 100);
  const Finished all = run(1, "first", {"-b", "48", "--resume", "auto"});
  EXPECT_EQ(all.exit_code, static_cast<int>(ErrorKind::data)) << all.all();
  EXPECT_EQ(count_of(all.err, "; none is left to use instead: give --resume another path, or "), 1)
      << all.all();
  // One that is asked for by its name is not replaced by another.
  const Finished job = run(1, "second", {"-b", "48", "--resume", checkpoint("first", 17)});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
  // Neither is one that is not there.
  for (const std::string& flag : Flags{"--resume", "--init"}) {
    const Finished none = run(1, "second", {"-b", "48", flag, checkpoint("first", 12)});
    EXPECT_EQ(none.exit_code, static_cast<int>(ErrorKind::missing)) << none.all();
    EXPECT_EQ(
        count_of(none.err, checkpoint("first", 12).string() +
                               ": no such checkpoint; there are iter_17, iter_15, iter_10 in " +
                               (folder / "first/checkpoints").string() + "\n"),
        1)
        << none.all();
  }
}

TEST_F(Checkpoints, WarnOnAFullDisk) {
  const fs::path disk = folder / "disk";
  fs::create_directories(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=16m") != 0)
    GTEST_SKIP() << "needs the right to mount: " << std::strerror(errno);
  bool is_full = false, is_over = false;
  double since = 0;
  // Of more checkpoints than one older ones would make room.
  const Flags flags = {"-b",     "24",     "--epoch", "1000",        "--checkpoint-every",
                       "20it",   "--keep", "1",       "--log-every", "1000",
                       "--quiet"};
  const Finished job = run_program(mpirun(2, program("disk/out", flags)), 60, {}, [&](pid_t) {
    if (!is_full && fs::exists(disk / "out/latest")) {
      is_full = true;
      since = shared_clock();
    }
    // Again and again, should there have been two at that moment.
    if (is_full && !is_over)
      std::ofstream(disk / "ballast", std::ios::app) << std::string(std::size_t{16} << 20, 'x');
    if (is_full && !is_over && shared_clock() - since > 1) {
      fs::remove(disk / "ballast");
      is_over = true;
    }
  });
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(is_over);
  EXPECT_GE(count_of(job.err, "No space left on device"), 1) << job.all();
  EXPECT_GE(count_of(job.err, "; training continues\n"), 1) << job.all();
  expect_once(run(1, "disk/out", {"-b", "48", "--epoch", "2000", "--resume", "auto", "--dry-run"}),
              "Resumed: " + (disk / "out/snapshot_iter_10000").string());
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_F(Checkpoints, CanBeUsedLikeSnapshots) {
  run(2, "first", {"-b", "24", "--epoch", "2", "--keep-best", "validation/main/accuracy"});
  const double accuracy = values_of(read_log("first"), "validation/main/accuracy").back();
  const Flags still = {"-b", "48", "--epoch", "1", "--optimizer", "sgd", "--lr", "0", "--init"};
  run(1, "second", with(still, {checkpoint("first", 20)}));
  EXPECT_EQ(values_of(read_log("second"), "validation/main/accuracy"), std::vector{accuracy});
  for (const std::string& model :
       Flags{checkpoint("first", 20), folder / "first/best", folder / "first"})
    EXPECT_EQ(run_program({PREDICT, model, "--quiet"}).exit_code, 0) << model;
}

TEST_F(Checkpoints, FollowTheIntervalFlag) {
  const auto names = [&](const std::string& period) {
    std::vector<std::string> found;
    run(1, "first", {"-b", "48", "--epoch", "2", "--keep", "99", "--checkpoint-every", period});
    if (fs::exists(folder / "first/checkpoints"))
      for (const auto& each : fs::directory_iterator(folder / "first/checkpoints"))
        found.push_back(each.path().filename());
    std::ranges::sort(found);
    return found;
  };
  EXPECT_EQ(names("none"), Flags{});
  EXPECT_EQ(names("10min"), Flags{"iter_20"});
  EXPECT_EQ(names("8it"), (Flags{"iter_16", "iter_20", "iter_8"}));
  EXPECT_EQ(names("0.5epoch"), (Flags{"iter_10", "iter_15", "iter_20", "iter_5"}));
  EXPECT_GE(names("0.01s").size(), 2U);

  const auto refused = [&](const Flags& flags, const std::string& text) {
    const Finished job = run(1, "first", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
    EXPECT_EQ(count_of(job.err, text), 1) << job.all();
  };
  const std::string expected = "--checkpoint-every: expected ";
  for (const char* const wrong : {"10", "min", "3weeks", "10iterations"})
    refused({"--checkpoint-every", wrong}, expected + "a number with its unit, such as 20it");
  for (const char* const wrong : {"0it", "1.5it"})
    refused({"--checkpoint-every", wrong},
            expected + "an integer from 1 to 1000000000 before 'it'");
  refused({"--checkpoint-every", "-1s"}, expected + "a number from 0.001 to 1000000000 before 's'");
  refused({"--checkpoint-every", "none", "--keep", "2"}, "--keep has no effect");
  refused({"--checkpoint-every", "none", "--keep-best", "lr"}, "--keep-best keeps a checkpoint");
}

}  // namespace
}  // namespace tasuki::testing
