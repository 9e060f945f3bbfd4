// What TensorBoard and StepLog write of a run on several ranks, and of one that is resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "core/file.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/event_records.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/checkpoint.hpp"
#include "training/extensions/observe.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/extensions/step_log.hpp"
#include "training/extensions/tensorboard.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::Scalars;
using testing::scalars_in;
using testing::SmallRun;
using testing::tags_in;
using testing::TemporaryFolder;

class WrittenSteps : public ::testing::Test {
 protected:
  static constexpr std::int64_t histogram_steps = 5;

  // 97 examples in batches of 7. Stops after `iterations`, and goes on from the snapshot `from`.
  void train(const std::string& out, std::int64_t iterations, const std::string& from = "",
             SmallRun::Options options = {}) {
    options.iterations = iterations;
    options.epochs = 100;
    SmallRun run(folder / out, comm.get(), options);
    run.trainer->extend(std::make_unique<TensorBoard>(
        TensorBoard::Settings{.settings = {{"unit", 8.0}}, .histograms = histogram_steps}));
    run.trainer->extend(std::make_unique<StepLog>(folder / (out + ".jsonl")));
    run.trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.at_end = true}),
                        {.trigger = every(4, Unit::iteration)});
    if (!from.empty()) resume(folder / out / from, *run.trainer);
    run.trainer->run();
    comm->barrier();
  }
  Scalars scalars(const std::string& out) const { return scalars_in(folder / out / "tensorboard"); }
  std::vector<nlohmann::json> rows(const std::string& out) const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(read_file(folder / (out + ".jsonl")));
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }

  std::unique_ptr<Communicator> comm = create_communicator("auto");
  TemporaryFolder folder{comm.get()};
};

// Means over all ranks: the mean of an epoch's steps, by their sizes, is the log's.
TEST_F(WrittenSteps, AreThoseOfAllRanks) {
  train("a", 30);
  if (comm->rank() != 0) return;
  const auto found = scalars("a");
  const auto log = testing::json_in(folder / "a/log");
  const auto& losses = found.at("step/main/loss");
  ASSERT_EQ(losses.size(), 30U);
  ASSERT_EQ(rows("a").size(), 30U);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(losses[i].first, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(losses[i].second, rows("a")[i].at("main/loss").get<float>());
    EXPECT_EQ(rows("a")[i].at("iteration"), losses[i].first);
    EXPECT_GT(rows("a")[i].at("seconds").get<double>(), 0);
  }
  const auto& entries = found.at("main/loss");
  ASSERT_EQ(entries.size(), log.size());
  std::size_t step = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].first, log[i].at("iteration"));
    EXPECT_EQ(entries[i].second, log[i].at("main/loss").get<float>());
    double sum = 0, examples = 0;
    const std::int64_t global = 7 * comm->size();
    for (; step < losses.size() && losses[step].first <= entries[i].first; ++step) {
      const std::int64_t in_epoch = static_cast<std::int64_t>(step) % ((97 + global - 1) / global);
      const auto size = static_cast<double>(std::min(global, 97 - in_epoch * global));
      sum += size * losses[step].second;
      examples += size;
    }
    EXPECT_NEAR(entries[i].second, sum / examples, 1e-5);
  }
  const auto tags = tags_in(folder / "a/tensorboard");
  EXPECT_EQ(tags.at("_hparams_/session_start_info"), 1);
  EXPECT_EQ(tags.at("weights/predictor/l1/W"), 30 / histogram_steps);
  EXPECT_EQ(tags.at("gradients/predictor/l1/W"), 30 / histogram_steps);
}

// Whatever part of the gradients a rank has.
TEST_F(WrittenSteps, HaveTheWholeMeanGradient) {
  const auto gradients = [&](const std::string& out) {
    std::string all;
    for (const auto& file : event_files_in(folder / out / "tensorboard"))
      for (const std::string& record : testing::records_in(file))
        if (const auto at = record.find("gradients/"); at != record.npos) all += record.substr(at);
    return all;
  };
  // With batches of all examples, the gradient does not depend on who has computed what.
  const SmallRun::Options whole{.optimizer = "sgd", .batch = 97};
  train("own", 5, "", whole);
  auto shared = whole;
  shared.shares = true;
  train("shared", 5, "", shared);
  auto sharded = whole;
  sharded.sharded = true;
  train("sharded", 5, "", sharded);
  if (comm->rank() != 0) return;
  EXPECT_FALSE(gradients("own").empty());
  EXPECT_EQ(gradients("shared"), gradients("own"));
  EXPECT_EQ(gradients("sharded"), gradients("own"));
}

TEST_F(WrittenSteps, AreThereOnceAfterAResume) {
  train("whole", 20);
  train("cut", 14);  // ends between entries of the log
  train("cut", 18, "snapshot_iter_12");
  train("cut", 20, "snapshot_iter_8");
  if (comm->rank() != 0) return;
  const auto without_times = [](Scalars scalars) {
    std::erase_if(scalars,
                  [](const auto& each) { return each.first.find("time") != std::string::npos; });
    return scalars;
  };
  EXPECT_EQ(without_times(scalars("cut")), without_times(scalars("whole")));
  const auto tags = tags_in(folder / "cut/tensorboard");
  EXPECT_EQ(tags.at("step/main/loss"), 20) << "steps that were rolled back are still in a file";
  EXPECT_EQ(tags.at("weights/predictor/l1/W"), 20 / histogram_steps);
  const auto found = rows("cut"), expected = rows("whole");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].at("iteration"), expected[i].at("iteration"));
    EXPECT_EQ(found[i].at("main/loss"), expected[i].at("main/loss"));
  }
}

// Where a process was killed before it could write, only what the snapshot has is left.
TEST_F(WrittenSteps, AreWrittenBeforeASave) {
  SmallRun run(folder / "a", comm.get(), {.epochs = 100, .iterations = 9});
  run.trainer->extend(std::make_unique<TensorBoard>(TensorBoard::Settings{}));
  run.trainer->extend(std::make_unique<StepLog>(folder / "a.jsonl"));
  run.trainer->extend(std::make_unique<Snapshot>(), {.trigger = every(4, Unit::iteration)});
  run.trainer->extend(make_extension(
      "look",
      [&](Trainer& trainer) {
        if (comm->rank() != 0 || trainer.updater().iteration() != 4) return;
        EXPECT_EQ(scalars("a").at("step/main/loss").size(), 4U);
        EXPECT_EQ(rows("a").size(), 4U);
      },
      Extension::priority_snapshot - 1));
  run.trainer->run();
}

TEST_F(WrittenSteps, BeginWithTheLogInAnotherFolder) {
  train("a", 30);
  SmallRun run(folder / "b", comm.get(), {.epochs = 100, .iterations = 32});
  run.trainer->extend(std::make_unique<TensorBoard>(TensorBoard::Settings{}));
  resume(folder / "a/snapshot_iter_28", *run.trainer);
  run.trainer->run();
  comm->barrier();
  if (comm->rank() != 0) return;
  const auto log = testing::json_in(folder / "b/log");
  EXPECT_EQ(scalars("b").at("main/loss").size(), log.size());
  EXPECT_EQ(scalars("b").at("step/main/loss").size(), 4U);
}

// Its disk is full for three epochs; after two, as much waits as may.
class OnFullDisk final : public StepWriter {
 public:
  explicit OnFullDisk(std::vector<std::int64_t>& rows) : rows_(rows) {}
  std::string default_name() const override { return "OnFullDisk"; }

 protected:
  void open(Trainer&) override {}
  void add_row(const StepRow& row) override { rows_.push_back(row.iteration); }
  void write(Trainer& trainer) override {
    epoch_ = trainer.updater().epoch();
    if (epoch_ < 4) fail(ErrorKind::cannot_write, "the disk is full");
  }
  std::int64_t waiting() const override { return epoch_ < 2 ? 1 : std::int64_t{64} << 20; }
  std::string place(const Trainer&) const override { return "the file"; }

 private:
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t>& rows_;
};

// The steps of the first two epochs wait, those of the next two are lost.
TEST_F(WrittenSteps, AreLostWhereTooManyWait) {
  std::vector<std::int64_t> rows;
  SmallRun run(folder / "a", comm.get(), {.epochs = 6});
  run.trainer->extend(std::make_unique<OnFullDisk>(rows));
  ::testing::internal::CaptureStderr();
  run.trainer->run();
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (comm->rank() != 0) {
    EXPECT_EQ(said, "");
    return;
  }
  const std::int64_t epoch = run.trainer->updater().steps_per_epoch();
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 1; i <= 6 * epoch; ++i)
    if (i <= 2 * epoch || i > 4 * epoch) expected.push_back(i);
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(said, fmt::format("warning: the disk is full; training continues, and up to 64 MiB of "
                              "what is to be written wait in memory\n"
                              "warning: the disk is full; 64 MiB wait in memory, and steps from "
                              "iteration {} on are lost\n"
                              "warning: the file can be written again: {} steps came late; {} "
                              "steps are lost, iterations {} to {}\n",
                              2 * epoch + 1, 2 * epoch, 2 * epoch, 2 * epoch + 1, 4 * epoch));
}

TEST_F(WrittenSteps, AreWrittenEarlyIfTheyAreMuch) {
  SmallRun run(folder / "a", comm.get(), {.epochs = 100, .iterations = 3});
  const auto& board = run.trainer->extend(std::make_unique<TensorBoard>(TensorBoard::Settings{}));
  const auto size = [&] {
    std::uintmax_t bytes = 0;
    for (const auto& file : event_files_in(folder / "a/tensorboard"))
      bytes += std::filesystem::file_size(file);
    return bytes;
  };
  run.trainer->extend(make_extension(
      "much",
      [&](Trainer& trainer) {
        if (comm->rank() != 0) return;
        const std::int64_t iteration = trainer.updater().iteration();
        if (iteration == 2) {
          EXPECT_GT(size(), 5U << 20);
        }
        if (iteration == 1) events_of(trainer)->add_text("much", std::string(5 << 20, 'x'), 1);
      },
      board.priority() + 1));
  run.trainer->run();
}

// A resumed run finds what another one has written under the same name.
TEST_F(WrittenSteps, LeaveOtherRunsFilesAlone) {
  train("a", 9);
  train("b", 9);
  const auto copy = [&](const std::string& from, const std::string& to) {
    if (comm->rank() == 0)
      std::filesystem::copy_file(folder / from, folder / to,
                                 std::filesystem::copy_options::overwrite_existing);
    comm->barrier();
  };
  copy("a.jsonl", "own.jsonl");
  copy("b.jsonl", "a.jsonl");
  EXPECT_THAT(error_of([&] { train("a", 12, "snapshot_iter_8"); }),
              HasSubstr("a.jsonl: it lacks the row of iteration 8 that this run had written"));
  if (comm->rank() == 0) {
    EXPECT_EQ(rows("a"), rows("b"));
  }
  copy("own.jsonl", "a.jsonl");
  train("a", 12, "snapshot_iter_8");
  if (comm->rank() == 0) {
    EXPECT_EQ(rows("a").size(), 12U);
  }
}

TEST_F(WrittenSteps, LeaveOtherFilesAlone) {
  if (comm->rank() == 0) write_file(folder / "a.jsonl", "another program's\n");
  comm->barrier();
  EXPECT_THAT(error_of([&] { train("a", 3); }), HasSubstr("a.jsonl is there already; remove it"));
  EXPECT_EQ(read_file(folder / "a.jsonl"), "another program's\n");
}

TEST(StepLogs, HaveOneOfTwoEndings) {
  EXPECT_THAT(error_of([] { StepLog("steps.txt"); }),
              HasSubstr("steps.txt: expected a name that ends in .csv or .jsonl"));
}

}  // namespace
}  // namespace tasuki
