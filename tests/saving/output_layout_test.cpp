// Which checkpoints are in a folder, in which order, and which of them remain.
#include "saving/output_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <thread>

#include "core/file.hpp"
#include "saving/checkpoint.hpp"
#include "saving/retention.hpp"
#include "saving/saved_states.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/leftover.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/output_folder.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

TEST(CheckpointNames, AreParsed) {
  EXPECT_EQ(CheckpointName::parse("iter_600"), (CheckpointName{600, 1}));
  EXPECT_EQ(CheckpointName::parse("iter_0-12"), (CheckpointName{0, 12}));
  for (const char* const name : {"iter_600", "iter_600-2", "iter_9223372036854775807"})
    EXPECT_EQ(CheckpointName::parse(name)->text(), name);
  for (const char* const name :
       {"", "iter_", "iter_-1", "iter_06", "iter_6-1", "iter_6-0", "iter_6-", "iter_6-2-3",
        "iter_6.tmp", "iter_6-2.tmp", "iter_9223372036854775808", "xiter_6", "iter_6 "})
    EXPECT_FALSE(CheckpointName::parse(name)) << name;
}

class OutputLayout : public ::testing::Test {
 protected:
  // Folders with a manifest: what is in it does not matter here.
  void make(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      fs::create_directories(out / checkpoints_name / name);
      std::ofstream(out / checkpoints_name / name / manifest_name) << "x";
    }
  }
  // In checkpoints/.
  std::vector<std::string> entries() const { return names_in(out / checkpoints_name); }
  void make_snapshots(const std::vector<std::string>& names) const {
    for (const std::string& name : names) std::ofstream(out / name) << "x";
  }
  std::vector<std::string> order(const std::string& suffix = "") const {
    std::vector<std::string> names;
    for (const SavedState& each : saved_states_in(out, suffix)) {
      EXPECT_EQ(each.is_checkpoint, each.path.parent_path() != out);
      EXPECT_EQ(iteration_of(each.path), each.iteration);
      names.push_back(each.path.lexically_relative(out).string());
    }
    return names;
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const CheckpointName& name : checkpoints_in(out)) names.push_back(name.text());
    return names;
  }

  TemporaryFolder folder;
  fs::path out = folder.path();
};

TEST_F(OutputLayout, AreOrderedWithSnapshots) {
  EXPECT_THAT(order(), IsEmpty());
  EXPECT_EQ(read_latest(out), std::nullopt);
  make({"iter_9", "iter_10", "iter_10-2", "iter_100", "iter_20.tmp", "notes"});
  make_snapshots({"snapshot_iter_10", "snapshot_iter_50", "snapshot_iter_100.0", "snapshot_best"});
  EXPECT_THAT(order(),
              ElementsAre("checkpoints/iter_100", "snapshot_iter_50", "checkpoints/iter_10-2",
                          "checkpoints/iter_10", "snapshot_iter_10", "checkpoints/iter_9"));
  // A run went back: what it left behind comes last.
  write_latest(out, checkpoint_folder(out, {10, 1}));
  EXPECT_EQ(read_latest(out), "checkpoints/iter_10");
  EXPECT_THAT(order(),
              ElementsAre("checkpoints/iter_10", "checkpoints/iter_10-2", "snapshot_iter_10",
                          "checkpoints/iter_9", "checkpoints/iter_100", "snapshot_iter_50"));
  write_latest(out, out / "snapshot_iter_10");
  EXPECT_EQ(read_file(out / latest_name), "snapshot_iter_10\n");
  EXPECT_EQ(order().front(), "snapshot_iter_10");
  EXPECT_THAT(order(".0"),
              ElementsAre("checkpoints/iter_10-2", "checkpoints/iter_10", "checkpoints/iter_9",
                          "checkpoints/iter_100", "snapshot_iter_100"));
  // As older versions name it.
  fs::rename(out / latest_name, out / "last_snapshot");
  EXPECT_EQ(read_latest(out), "snapshot_iter_10");
  EXPECT_EQ(order().front(), "snapshot_iter_10");
}

// A chain of saves that goes back twice.
TEST_F(OutputLayout, StayLastWhenAbandoned) {
  const auto at = [&](std::int64_t iteration) { return checkpoint_folder(out, {iteration, 1}); };
  record_start(out, "");
  make({"iter_40", "iter_50", "iter_60"});
  make_snapshots({"snapshot_iter_60"});
  write_latest(out, at(60));
  EXPECT_EQ(order().front(), "checkpoints/iter_60");
  EXPECT_THAT(abandoned_in(out), IsEmpty());

  record_start(out, at(40));
  EXPECT_EQ(read_latest(out), "checkpoints/iter_40");
  make({"iter_49"});
  write_latest(out, at(49));
  make({"iter_51"});
  write_latest(out, at(51));
  EXPECT_THAT(order(),
              ElementsAre("checkpoints/iter_51", "checkpoints/iter_49", "checkpoints/iter_40",
                          "checkpoints/iter_60", "snapshot_iter_60", "checkpoints/iter_50"));
  // Neither do they take places of those that remain.
  remove_old_checkpoints(out, at(51), 2);
  EXPECT_THAT(checkpoints(), ElementsAre("iter_60", "iter_51", "iter_50", "iter_49"));
  make({"iter_70"});
  write_latest(out, at(70));
  EXPECT_THAT(order(),
              ElementsAre("checkpoints/iter_70", "checkpoints/iter_51", "checkpoints/iter_49",
                          "checkpoints/iter_60", "snapshot_iter_60", "checkpoints/iter_50"));

  // A file that is written again belongs to the run that writes it.
  write_latest(out, out / "snapshot_iter_80");
  record_start(out, at(49));
  write_latest(out, out / "snapshot_iter_60");
  EXPECT_THAT(order(),
              ElementsAre("snapshot_iter_60", "checkpoints/iter_49", "checkpoints/iter_70",
                          "checkpoints/iter_60", "checkpoints/iter_51", "checkpoints/iter_50"));
  // Somebody wants the first run after all.
  record_start(out, at(60));
  EXPECT_EQ(order().front(), "checkpoints/iter_60");
  EXPECT_EQ(abandoned_in(out).size(), 5U);
  // What is no longer there is forgotten.
  remove_checkpoint(at(50));
  record_start(out, at(49));
  EXPECT_FALSE(abandoned_in(out).contains("checkpoints/iter_50"));
}

// The run went back on the disk where it started; this is another one.
TEST_F(OutputLayout, OnOtherDisksAreAbandonedByName) {
  make({"iter_40", "iter_45", "iter_50"});
  abandon(out, {"checkpoints/iter_45", "checkpoints/iter_50", "checkpoints/iter_55"});
  EXPECT_THAT(abandoned_in(out), ElementsAre("checkpoints/iter_45", "checkpoints/iter_50"));
  EXPECT_EQ(order().front(), "checkpoints/iter_40");
}

TEST_F(OutputLayout, AreRecordedByARunInAnotherFolder) {
  const TemporaryFolder other;
  make({"iter_60"});
  record_start(out, other.path() / "checkpoints/iter_40");
  EXPECT_EQ(read_latest(out), std::nullopt);
  make({"iter_10"});
  write_latest(out, checkpoint_folder(out, {10, 1}));
  make({"iter_70"});
  write_latest(out, checkpoint_folder(out, {70, 1}));
  EXPECT_THAT(order(),
              ElementsAre("checkpoints/iter_70", "checkpoints/iter_10", "checkpoints/iter_60"));
}

// A snapshot and a checkpoint in the background.
TEST_F(OutputLayout, AreRecordedByTwoThreads) {
  record_start(out, "");
  std::vector<std::thread> threads;
  for (int which = 0; which < 2; ++which)
    threads.emplace_back([&, which] {
      for (std::int64_t i = 1; i <= 30; ++i)
        write_latest(out, which == 0 ? out / fmt::format("snapshot_iter_{}", i)
                                     : checkpoint_folder(out, {i, 1}));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(iteration_of(read_latest(out).value()), 30);
  // One that finishes late.
  write_latest(out, checkpoint_folder(out, {29, 1}));
  EXPECT_EQ(iteration_of(read_latest(out).value()), 30);
  EXPECT_THAT(leftovers_in(out), IsEmpty());
  // A run that goes back may name lower ones again.
  make({"iter_28"});
  record_start(out, checkpoint_folder(out, {28, 1}));
  EXPECT_EQ(read_latest(out), "checkpoints/iter_28");
}

TEST_F(OutputLayout, AreNumberedWithinAnIteration) {
  EXPECT_EQ(next_number(out, 7), 1);
  make({"iter_7"});
  EXPECT_EQ(next_number(out, 7), 2);
  make({"iter_7-12", "iter_8-30"});
  EXPECT_EQ(next_number(out, 7), 13);
}

TEST_F(OutputLayout, KeepTheNewestAndTheBest) {
  make({"iter_1", "iter_2", "iter_3", "iter_4", "iter_4-2", "iter_90"});
  EXPECT_EQ(best_checkpoint(out), std::nullopt);
  write_best(out, checkpoint_folder(out, {2, 1}));
  EXPECT_EQ(best_checkpoint(out), checkpoint_folder(out, {2, 1}));
  // iter_90 belongs to what the run has left.
  remove_old_checkpoints(out, checkpoint_folder(out, {4, 2}), 3);
  EXPECT_THAT(checkpoints(), ElementsAre("iter_90", "iter_4-2", "iter_4", "iter_3", "iter_2"));
  remove_old_checkpoints(out, checkpoint_folder(out, {4, 2}), 1);
  EXPECT_THAT(checkpoints(), ElementsAre("iter_90", "iter_4-2", "iter_2"));
  make({"iter_5"});
  remove_old_checkpoints(out, checkpoint_folder(out, {5, 1}), 0);
  EXPECT_THAT(checkpoints(), ElementsAre("iter_90", "iter_5", "iter_2"));
  fs::remove_all(checkpoint_folder(out, {2, 1}));
  EXPECT_EQ(best_checkpoint(out), std::nullopt);
  EXPECT_THAT(unfinished_checkpoints_in(out), IsEmpty());
}

TEST_F(OutputLayout, CanBeRemoved) {
  make({"iter_1", "iter_2"});
  make_snapshots({"checkpoints/iter_1/state.npz", "checkpoints/iter_1/optimizer.12.npz",
                  "checkpoints/iter_1/.DS_Store"});
  remove_checkpoint(checkpoint_folder(out, {1, 1}));
  EXPECT_THAT(entries(), ElementsAre("iter_2"));
}

// Names alone make no checkpoint.
TEST_F(OutputLayout, KeepUserFolders) {
  make({"iter_0", "iter_1", "iter_2", "iter_3", "iter_4"});
  fs::remove(out / "checkpoints/iter_1" / manifest_name);
  make_snapshots({"checkpoints/iter_0/.notes", "checkpoints/iter_1/state.npz",
                  "checkpoints/iter_2/thesis.tex"});
  fs::remove_all(out / "checkpoints/iter_3");
  fs::create_directory_symlink(out / "checkpoints/iter_2", out / "checkpoints/iter_3");
  for (const int iteration : {0, 1, 2, 3})
    remove_checkpoint(checkpoint_folder(out, {iteration, 1}));
  remove_old_checkpoints(out, checkpoint_folder(out, {4, 1}), 1);
  EXPECT_THAT(checkpoints(), ElementsAre("iter_4", "iter_3", "iter_2", "iter_1", "iter_0"));
  remove_results(out);
  EXPECT_THAT(checkpoints(), ElementsAre("iter_3", "iter_2", "iter_1", "iter_0"));
  EXPECT_EQ(read_file(out / "checkpoints/iter_0/.notes"), "x");
  EXPECT_EQ(read_file(out / "checkpoints/iter_2/thesis.tex"), "x");
}

// A folder from somebody else may name anything.
TEST_F(OutputLayout, AreNotRecordedOutsideTheFolder) {
  make({"iter_1"});
  for (const char* const name :
       {"..", ".", "../out/checkpoints/iter_1", "/etc/passwd", "checkpoints/../../x",
        "checkpoints//iter_1", "checkpoints/x", "other/iter_1", "snapshot_iter_1/", "/"}) {
    write_file(out / latest_name, std::string(name) + "\n");
    write_file(out / best_name, std::string(name) + "\n");
    for (const auto& look : {std::function<void()>([&] { read_latest(out); }),
                             std::function<void()>([&] { best_checkpoint(out); }),
                             std::function<void()>([&] { saved_states_in(out); })})
      testing::expect_error(ErrorKind::data, {out.string() + "/", fmt::format("'{}'", name)}, look);
  }
  // Nor shown as they are.
  write_file(out / latest_name, "/\x1b[31m" + std::string(1000, 'x'));
  const std::string error = testing::error_of([&] { read_latest(out); });
  EXPECT_THAT(error, ::testing::HasSubstr("'/?[31mxxx"));
  EXPECT_LT(error.size(), 400U);
  write_file(out / latest_name, "checkpoints/iter_1\n");
  write_file(out / best_name, "checkpoints/iter_1\n");
  EXPECT_EQ(read_latest(out), "checkpoints/iter_1");
  EXPECT_EQ(best_checkpoint(out), checkpoint_folder(out, {1, 1}));
}

TEST_F(OutputLayout, AreNotReadThroughLinksAndPipes) {
  const TemporaryFolder other;
  write_file(other / "theirs", "secret\n");
  for (const char* const name : {latest_name, abandoned_name, best_name}) {
    fs::create_symlink(other / "theirs", out / name);
    for (const bool is_pipe : {false, true}) {
      if (is_pipe) {
        fs::remove(out / name);
        ASSERT_EQ(::mkfifo((out / name).c_str(), 0600), 0);
      }
      const std::string error = testing::error_of([&] {
        saved_states_in(out);
        best_checkpoint(out);
      });
      EXPECT_THAT(error, ::testing::HasSubstr((out / name).string() +
                                              ": expected a regular file, found a "));
    }
    fs::remove(out / name);
  }
}

TEST_F(OutputLayout, CountAsResults) {
  EXPECT_FALSE(has_results(out));
  const std::string unfinished = testing::leftover("iter_3");
  make({unfinished, "notes"});
  EXPECT_FALSE(has_results(out));
  make({"iter_3", "iter_4-2"});
  EXPECT_TRUE(has_results(out));
  make_snapshots(
      {"checkpoints/iter_3/state.npz", "checkpoints/notes/mine", "latest", "best", "abandoned"});
  remove_results(out);
  EXPECT_FALSE(has_results(out));
  EXPECT_FALSE(fs::exists(out / latest_name));
  EXPECT_FALSE(fs::exists(out / best_name));
  EXPECT_FALSE(fs::exists(out / abandoned_name));
  EXPECT_TRUE(fs::exists(out / "checkpoints/notes/mine"));
  EXPECT_THAT(checkpoints(), IsEmpty());
  fs::remove_all(out / "checkpoints/notes");
  make({"iter_3"});
  remove_results(out);
  EXPECT_FALSE(fs::exists(out / checkpoints_name));
}

TEST_F(OutputLayout, AreRemovedWhenUnfinished) {
  // Of a run that was killed: while it removed one, wrote one, and before it could write the
  // marker.
  const std::string removed = testing::leftover("iter_3"), written = testing::leftover("iter_4-2"),
                    empty = testing::leftover("iter_5"), token = testing::leftover("writer");
  // Of users; of a run that is at work; of an older version, which may be at work elsewhere.
  const std::string own = testing::leftover("iter_6"), others = testing::leftover("thesis"),
                    present = temporary_name("iter_7").string();
  make({"iter_2", removed, written, empty, own, others, present, "iter_8.tmp"});
  make_snapshots({"checkpoints/" + written + "/.tasuki", "checkpoints/" + written + "/state.npz",
                  "checkpoints/" + own + "/thesis.tex", "checkpoints/" + token,
                  "checkpoints/thesis.2024.tmp"});
  for (const std::string& each : {written, empty})
    fs::remove(out / checkpoints_name / each / manifest_name);
  OutputFolder output(out);
  output.take(OldResults::join);
  EXPECT_THAT(entries(), ::testing::UnorderedElementsAre("iter_2", own, others, present,
                                                         "iter_8.tmp", "thesis.2024.tmp"));
}

}  // namespace
}  // namespace tasuki
