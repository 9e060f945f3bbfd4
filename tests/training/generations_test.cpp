// Which generations are in a folder, in which order, and which of them remain.
#include "tasuki/training/checkpoints/generations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tasuki/core/file.hpp"
#include "tasuki/training/output_folder.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

TEST(GenerationNames, AreRead) {
  EXPECT_EQ(GenerationName::parse("iter_600"), (GenerationName{600, 1}));
  EXPECT_EQ(GenerationName::parse("iter_0-12"), (GenerationName{0, 12}));
  for (const char* const name : {"iter_600", "iter_600-2", "iter_9223372036854775807"})
    EXPECT_EQ(GenerationName::parse(name)->text(), name);
  for (const char* const name :
       {"", "iter_", "iter_-1", "iter_06", "iter_6-1", "iter_6-0", "iter_6-", "iter_6-2-3",
        "iter_6.tmp", "iter_6-2.tmp", "iter_9223372036854775808", "xiter_6", "iter_6 "})
    EXPECT_FALSE(GenerationName::parse(name)) << name;
}

class Generations : public ::testing::Test {
 protected:
  // Empty ones: what is in them does not matter here.
  void make(const std::vector<std::string>& names) const {
    for (const std::string& name : names) fs::create_directories(out / checkpoints_name / name);
  }
  void make_snapshots(const std::vector<std::string>& names) const {
    for (const std::string& name : names) std::ofstream(out / name) << "x";
  }
  std::vector<std::string> order(const std::string& suffix = "") const {
    std::vector<std::string> names;
    for (const SavedState& each : saved_states_in(out, suffix)) {
      EXPECT_EQ(each.is_generation, each.path.parent_path() != out);
      EXPECT_EQ(iteration_of(each.path), each.iteration);
      names.push_back(each.path.lexically_relative(out).string());
    }
    return names;
  }
  std::vector<std::string> generations() const {
    std::vector<std::string> names;
    for (const GenerationName& name : generations_in(out)) names.push_back(name.text());
    return names;
  }

  TemporaryFolder folder;
  fs::path out = folder.path();
};

TEST_F(Generations, StandInOneOrderWithSnapshots) {
  EXPECT_THAT(order(), IsEmpty());
  EXPECT_EQ(read_latest(out), std::nullopt);
  make({"iter_9", "iter_10", "iter_10-2", "iter_100", "iter_20.tmp", "notes"});
  make_snapshots({"snapshot_iter_10", "snapshot_iter_50", "snapshot_iter_100.0", "snapshot_best"});
  EXPECT_THAT(order(),
              ElementsAre("checkpoints/iter_100", "snapshot_iter_50", "checkpoints/iter_10-2",
                          "checkpoints/iter_10", "snapshot_iter_10", "checkpoints/iter_9"));
  // A run went back: what it left behind comes last.
  write_latest(out, generation_folder(out, {10, 1}));
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

TEST_F(Generations, OfTheSameIterationAreNumbered) {
  EXPECT_EQ(next_number(out, 7), 1);
  make({"iter_7"});
  EXPECT_EQ(next_number(out, 7), 2);
  make({"iter_7-12", "iter_8-30"});
  EXPECT_EQ(next_number(out, 7), 13);
}

TEST_F(Generations, TheNewestAndTheBestRemain) {
  make({"iter_1", "iter_2", "iter_3", "iter_4", "iter_4-2", "iter_90"});
  EXPECT_EQ(best_generation(out), std::nullopt);
  write_best(out, generation_folder(out, {2, 1}));
  EXPECT_EQ(best_generation(out), generation_folder(out, {2, 1}));
  // iter_90 belongs to a course of the run that was left.
  remove_old_generations(out, generation_folder(out, {4, 2}), 3);
  EXPECT_THAT(generations(), ElementsAre("iter_90", "iter_4-2", "iter_4", "iter_3", "iter_2"));
  remove_old_generations(out, generation_folder(out, {4, 2}), 1);
  EXPECT_THAT(generations(), ElementsAre("iter_90", "iter_4-2", "iter_2"));
  make({"iter_5"});
  remove_old_generations(out, generation_folder(out, {5, 1}), 0);
  EXPECT_THAT(generations(), ElementsAre("iter_90", "iter_5", "iter_2"));
  fs::remove(generation_folder(out, {2, 1}));
  EXPECT_EQ(best_generation(out), std::nullopt);
  EXPECT_THAT(unfinished_generations_in(out), IsEmpty());
}

// Also over what an earlier removal has left.
TEST_F(Generations, AreNeverThereInPart) {
  make({"iter_1", "iter_1.tmp", "iter_2"});
  make_snapshots({"checkpoints/iter_1/state.npz", "checkpoints/iter_1.tmp/state.npz"});
  remove_generation(generation_folder(out, {1, 1}));
  EXPECT_THAT(generations(), ElementsAre("iter_2"));
  EXPECT_FALSE(fs::exists(out / "checkpoints/iter_1.tmp"));
}

TEST_F(Generations, AreResults) {
  EXPECT_FALSE(has_results(out));
  make({"iter_3.tmp", "notes"});
  EXPECT_FALSE(has_results(out));
  make({"iter_3", "iter_4-2"});
  EXPECT_TRUE(has_results(out));
  make_snapshots({"checkpoints/iter_3/state.npz", "checkpoints/notes/mine", "latest", "best"});
  remove_results(out);
  EXPECT_FALSE(has_results(out));
  EXPECT_FALSE(fs::exists(out / latest_name));
  EXPECT_FALSE(fs::exists(out / best_generation_name));
  EXPECT_TRUE(fs::exists(out / "checkpoints/notes/mine"));
  EXPECT_THAT(generations(), IsEmpty());
  fs::remove_all(out / "checkpoints/notes");
  make({"iter_3"});
  remove_results(out);
  EXPECT_FALSE(fs::exists(out / checkpoints_name));
}

TEST_F(Generations, ThatWereNotFinishedGoWhenTheFolderIsTaken) {
  make({"iter_3.tmp", "iter_4-2.tmp", "iter_2", "notes.tmp"});
  make_snapshots({"checkpoints/writer-0.123.tmp", "checkpoints/iter_3.tmp/state.npz"});
  OutputFolder output(out);
  output.take(OldResults::join);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(out / checkpoints_name))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("iter_2", "notes.tmp"));
}

}  // namespace
}  // namespace tasuki
