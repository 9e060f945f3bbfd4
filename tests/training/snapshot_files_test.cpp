// Files of snapshots: what is in them, which of them are kept, and what happens where they cannot
// be written or are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "core/file.hpp"
#include "resumed_run.hpp"
#include "saving/npz.hpp"
#include "tests/support/json.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::Resume;
using testing::SmallRun;

// A run resumed from an earlier snapshot finds later ones: only its own count, and those stay.
TEST_F(Resume, SnapshotReplacesOnlyEarlierOnes) {
  const std::filesystem::path later = folder / "first/snapshot_iter_1000";
  if (comm->rank() == 0) {
    std::filesystem::create_directories(folder / "first");
    std::ofstream(later) << "of what this run has left";
  }
  SmallRun run(folder / "first", comm.get(), {});
  run.trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.n_retains = 1}),
                      {.trigger = every(3, Unit::iteration)});
  run.trainer->run();
  comm->barrier();
  EXPECT_TRUE(exists(later));
  const auto last = run.trainer->updater().iteration() / 3 * 3;
  for (const std::int64_t each : {last, last - 3})
    EXPECT_EQ(exists(folder / fmt::format("first/snapshot_iter_{}", each)), each == last);
}

// There is no such folder, so that none of them can be written.
TEST_F(Resume, RetriesFailedSnapshotsAtTheEnd) {
  const auto run = [&](bool retry) {
    SmallRun run(folder / "first", comm.get(), {});
    run.trainer->extend(std::make_unique<Snapshot>(
                            Snapshot::Settings{.filename = "none/last", .retry_at_end = retry}),
                        {.trigger = every(3, Unit::iteration)});
    run.trainer->run();
  };
  EXPECT_THAT(error_of([&] { run(true); }), HasSubstr("none/last"));
  EXPECT_EQ(error_of([&] { run(false); }), "(nothing thrown)");
}

TEST_F(Resume, UsesChainersKeys) {
  saved_run({.epochs = 1});
  if (comm->rank() != 0) return;
  const NpzFile file(folder / "state", /*require_hash=*/true);
  for (const char* key :
       {"updater/iteration", "updater/iterator:main/epoch", "updater/model:main/predictor/l1/W",
        "updater/model:main/predictor/l2/b", "updater/optimizer:main/t",
        "updater/optimizer:main/epoch", "updater/optimizer:main/predictor/l1/W/t",
        "updater/iterator:main/is_new_epoch", "updater/iterator:main/previous_epoch_detail",
        "updater/optimizer:main/predictor/l1/W/m", "updater/optimizer:main/predictor/l1/W/v",
        "extensions/LogReport/_log", "extensions/ExponentialShift/_t", "_snapshot_elapsed_time"})
    EXPECT_TRUE(file.find(key)) << key;
  const auto number = [&](const std::string& name) {
    return *std::get<Tensor>(file.read("updater/" + name)).data<std::int64_t>();
  };
  EXPECT_EQ(number("optimizer:main/epoch"), 1);
  EXPECT_EQ(number("iterator:main/is_new_epoch"), 1);
  EXPECT_EQ(number("optimizer:main/predictor/l1/b/t"), number("optimizer:main/t"));
  const auto before = std::get<Tensor>(file.read("updater/iterator:main/previous_epoch_detail"));
  const auto steps = static_cast<double>(number("iteration"));
  EXPECT_DOUBLE_EQ(*before.data<double>(), (steps - 1) / steps);
  EXPECT_EQ(file.find("updater/model:main/predictor/l1/W")->shape, (Shape{8, 12}));
  EXPECT_EQ(file.find("updater/optimizer:main/predictor/l1/W/m")->shape, (Shape{8, 12}));
}

// Older versions have saved the log as a text of NumPy, four bytes for a character.
TEST_F(Resume, ReadsLogsAsBytesOrText) {
  const auto first = saved_run({.epochs = 2});
  std::vector<NpzEntry> entries;
  if (comm->rank() == 0) {
    const NpzFile file(folder / "state", /*require_hash=*/true);
    for (const std::string& name : file.names()) entries.push_back({name, file.read(name)});
    for (NpzEntry& entry : entries) {
      if (entry.name != "extensions/LogReport/_log") continue;
      const Tensor bytes = std::get<Tensor>(entry.value);
      ASSERT_EQ(bytes.dtype(), DType::uint8);
      entry.value = std::string(static_cast<const char*>(bytes.raw()), bytes.bytes());
    }
    write_npz(folder / "older", entries);
  }
  comm->barrier();
  for (const char* const name : {"state", "older"}) {
    SmallRun second(folder / "second", comm.get(), {.epochs = 2});
    resume(folder / name, *second.trainer);
    EXPECT_EQ(second.log->entries().size(), 2U);
    // Other ranks measure times of their own, and load rank 0's.
    if (comm->rank() == 0) {
      EXPECT_EQ(second.log->entries(), first->log->entries()) << name;
    }
  }
}

TEST_F(Resume, RejectsDamagedFiles) {
  saved_run({.iterations = 1});
  std::string good;
  if (comm->rank() == 0) good = read_file(folder / "state");
  const auto put = [&](const std::string& contents) {
    if (comm->rank() == 0)
      std::ofstream(folder / "state", std::ios::binary | std::ios::trunc) << contents;
    comm->barrier();
  };
  for (const double part : {0.0, 0.3, 0.999}) {
    put(good.substr(0, static_cast<std::size_t>(part * static_cast<double>(good.size()))));
    EXPECT_THAT(refusal({}), HasSubstr("state")) << part;
  }
  std::string flipped = good;
  // Among the weights, behind their entry's name and header.
  if (!flipped.empty()) flipped[flipped.find("updater/model:main/predictor/l1/W") + 250] ^= 4;
  put(flipped);
  EXPECT_THAT(refusal({}), HasSubstr("its hash does not match"));
  put("no snapshot");
  EXPECT_THAT(refusal({}), HasSubstr("state"));
  if (comm->rank() == 0) std::filesystem::remove(folder / "state");
  comm->barrier();
  EXPECT_THAT(refusal({}), HasSubstr("no such file"));
}

TEST_F(Resume, KeepsTheOlderSnapshotOnAFullDisk) {
  const auto run = saved_run({.iterations = 1});
  std::string good;
  if (comm->rank() == 0) good = read_file(folder / "state");
  run->trainer->updater().optimizer().set_t(99);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 2000;
  // Rank 0 alone has a full disk, and all ranks hear of it.
  if (comm->rank() == 0) {
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  const std::string message = error_of([&] { save_snapshot(folder / "state", *run->trainer); });
  if (comm->rank() == 0) {
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(read_file(folder / "state"), good);
  }
  EXPECT_THAT(message, HasSubstr("cannot write"));
  comm->barrier();
  EXPECT_EQ(refusal({}), "(nothing thrown)");
}

TEST_F(Resume, ContinuesTrainingWhenSnapshotsFail) {
  SmallRun::Options options{.epochs = 2};
  SmallRun run(folder / "first", comm.get(), options);
  const std::int64_t steps = run.trainer->updater().steps_per_epoch();
  // In place of a full disk: a folder of the snapshot's name, until the second epoch.
  const auto obstacle = [&](std::int64_t iteration) {
    return folder / fmt::format("first/s{}", iteration);
  };
  if (comm->rank() == 0) std::filesystem::create_directories(obstacle(steps));
  run.trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.filename = "s{iteration}"}));
  run.trainer->run();
  comm->barrier();
  EXPECT_TRUE(is_regular_file(obstacle(2 * steps)));

  // The last one of a run is missed.
  SmallRun again(folder / "first", comm.get(), {.epochs = 1});
  again.trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.filename = "s{iteration}"}));
  EXPECT_THAT(error_of([&] { again.trainer->run(); }), HasSubstr(fmt::format("s{}: ", steps)));
}

}  // namespace
}  // namespace tasuki
