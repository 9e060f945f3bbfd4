// --tensorboard and --log-steps of whole jobs: what is there once after a killed run was resumed,
// and what is refused.
#include <gmock/gmock.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "saving/event_file.hpp"
#include "tests/support/event_records.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class SeenSteps : public TrainMnist {
 protected:
  Flags flags_for(const std::string& steps, int epochs, int np) const {
    return {"-b",
            std::to_string(48 / np),
            "--epoch",
            std::to_string(epochs),
            "--tensorboard",
            "--histograms",
            "5",
            "--log-steps",
            folder / steps,
            "--checkpoint-every",
            "4it",
            "--communicator",
            "naive",
            "--snapshot-every",
            "1"};
  }
  Scalars scalars(const std::string& out) const {
    Scalars found = scalars_in(folder / (out + "/tensorboard"));
    std::erase_if(found,
                  [](const auto& each) { return each.first.find("time") != std::string::npos; });
    return found;
  }
  // The lines of a table without their times, which are the third to the ninth field.
  std::vector<std::string> table(const std::string& steps) const {
    std::vector<std::string> lines;
    std::istringstream text(read_file(folder / steps));
    for (std::string line; std::getline(text, line);) {
      std::string kept;
      std::istringstream fields(line);
      int number = 0;
      for (std::string field; std::getline(fields, field, ',');)
        if (++number <= 2 || (number >= 10 && number <= 12)) kept += field + ',';
      lines.push_back(kept);
    }
    return lines;
  }
  void expect_refusal(const Flags& flags, const std::string& line, ErrorKind kind) {
    const Finished job = run(1, "refused", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, line), 1) << job.err;
  }
};

TEST_F(SeenSteps, AreThereOnceAfterAResume) {
  for (const int np : {1, 2}) {
    SCOPED_TRACE(np);
    log_of(np, "whole", with(flags_for("whole.csv", 4, np), {"--overwrite"}));
    log_of(np, "cut", with(flags_for("cut.csv", 3, np), {"--overwrite"}));
    const Flags again =
        with(flags_for("cut.csv", 4, np), {"--resume", folder / "cut/snapshot_iter_20"});
    const Finished resumed = run(np, "cut", again);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
    const Scalars found = scalars("cut"), whole = scalars("whole");
    EXPECT_EQ(found.at("step/main/loss").size(), 40U);
    EXPECT_EQ(found.at("main/loss").size(), 4U);
    EXPECT_EQ(found, whole);
    auto tags = tags_in(folder / "cut/tensorboard");
    for (const char* const tag : {"validation/misclassified", "_hparams_/session_start_info"})
      EXPECT_GE(tags[tag], 1) << tag;
    EXPECT_EQ(tags["weights/predictor/l1/W"], 8);
    EXPECT_EQ(tags["gradients/predictor/l3/b"], 8);
    EXPECT_EQ(tags["step/main/loss"], 40);
    EXPECT_EQ(table("cut.csv"), table("whole.csv"));
    EXPECT_EQ(table("cut.csv").size(), 41U);
    const auto log = read_log("cut");
    for (std::size_t i = 0; i < log.size(); ++i)
      EXPECT_EQ(found.at("validation/main/accuracy")[i].second,
                log[i].at("validation/main/accuracy").get<float>());
  }
}

// It has results of a killed run that has saved nothing.
TEST_F(SeenSteps, BeginAnewWithoutASavedState) {
  const Flags flags = with(flags_for("steps.jsonl", 1, 1), {"--resume", "auto"});
  for (int i = 0; i < 2; ++i) {
    const Finished job = run(1, "killed", flags);
    ASSERT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(scalars("killed").at("step/main/loss").size(), 10U);
    EXPECT_EQ(tags_in(folder / "killed/tensorboard").at("step/main/loss"), 10);
    EXPECT_EQ(count_of(read_file(folder / "steps.jsonl"), "\n"), 10);
    for (const char* const name : {"checkpoints", "latest", "snapshot_iter_10", "finished.json"})
      std::filesystem::remove_all(folder / (std::string("killed/") + name));
  }
}

TEST_F(SeenSteps, AreReplacedWithOverwrite) {
  for (int i = 0; i < 2; ++i) log_of(1, "run", with(flags_for("steps.csv", 1, 1), {"--overwrite"}));
  EXPECT_EQ(event_files_in(folder / "run/tensorboard").size(), 1U);
  EXPECT_EQ(table("steps.csv").size(), 11U);
}

TEST_F(SeenSteps, RefuseWrongFlagsInOneLine) {
  write_file(folder / "theirs.csv", "a,b\n1,2\n");
  const Flags steps = {"--max-iterations", "2", "--log-steps"};
  for (const char* const name : {"steps", "steps.txt"})
    expect_refusal(with(steps, {name}), "--log-steps: expected a name that ends in .csv or .jsonl",
                   ErrorKind::usage);
  expect_refusal({"--histograms", "5"}, "--histograms has no effect without --tensorboard; add it",
                 ErrorKind::usage);
  expect_refusal({"--tensorboard", "--histograms", "-1"}, "--histograms: expected",
                 ErrorKind::usage);
  expect_refusal(
      with(steps, {folder / "theirs.csv"}),
      "theirs.csv, line 1: expected 'iteration,epoch,elapsed_time,seconds,...', found 'a,b'",
      ErrorKind::data);
  EXPECT_EQ(read_file(folder / "theirs.csv"), "a,b\n1,2\n");
  const Finished kept = run_program(
      mpirun(1, {TRAIN_MNIST, "--data", data, "--unit", "8", "--threads", "1", "--out",
                 folder / "new", "--max-iterations", "2", "--log-steps", folder / "theirs.csv"}));
  EXPECT_EQ(kept.exit_code, static_cast<int>(ErrorKind::cannot_write)) << kept.all();
  EXPECT_EQ(count_of(kept.err, "theirs.csv is there already; remove it, give another name"), 1);
  std::filesystem::create_directory(folder / "folder.csv");
  expect_refusal(with(steps, {folder / "folder.csv"}),
                 "folder.csv: expected a regular file, found a folder", ErrorKind::data);
}

}  // namespace
}  // namespace tasuki::testing
