// train_mnist and train_cifar with --init-skip, --freeze, --ema and --summary.
#include "core/error.hpp"
#include "predict_job.hpp"
#include "saving/npz.hpp"
#include "tests/support/pictures.hpp"

namespace tasuki::testing {
namespace {

class Finetuning : public TrainMnist {
 protected:
  // The bytes of an array of a model in a snapshot or a model file.
  static std::string array_in(const std::string& file, const std::string& path,
                              const std::string& prefix = "updater/model:main/") {
    const NpzFile npz(file);
    const Tensor values = std::get<Tensor>(npz.read(prefix + path));
    return {static_cast<const char*>(values.raw()), values.bytes()};
  }
  std::string snapshot(const std::string& out, int iteration) const {
    return folder / fmt::format("{}/snapshot_iter_{}", out, iteration);
  }
  void expect_refused(int np, const std::vector<std::string>& flags, const std::string& line,
                      ErrorKind kind = ErrorKind::usage) {
    const Finished job = run(np, "refused", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, line), 1) << line << "\n--- in ---\n" << job.err;
  }
  // A run of ten steps, whose weights others start from.
  std::string first_run() {
    log_of(1, "first", {"-b", "48", "--epoch", "1"});
    return snapshot("first", 10);
  }
};

TEST_F(Finetuning, KeepsTheInitialValuesOfWhatIsSkipped) {
  const std::string from = first_run();
  const Finished plain = run(
      1, "drawn", {"-b", "48", "--epoch", "1", "--optimizer", "sgd", "--lr", "0", "--seed", "4"});
  ASSERT_EQ(plain.exit_code, 0) << plain.all();
  for (const int np : {1, 2}) {
    SCOPED_TRACE(np);
    const Finished job =
        run(np, "tuned",
            {"--global-batch", "48", "--epoch", "1", "--optimizer", "sgd", "--lr", "0", "--seed",
             "4", "--init", from, "--init-skip", "predictor/l3,**/l2/b"});
    ASSERT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.err, "initial weights: " + from + " (3 arrays)"), 1) << job.err;
    EXPECT_EQ(count_of(job.err,
                       "initial values kept by --init-skip: predictor/l2/b, predictor/l3/W, "
                       "predictor/l3/b"),
              1)
        << job.err;
    for (const char* const path : {"predictor/l1/W", "predictor/l1/b", "predictor/l2/W"})
      EXPECT_EQ(array_in(snapshot("tuned", 10), path), array_in(from, path)) << path;
    for (const char* const path : {"predictor/l2/b", "predictor/l3/W", "predictor/l3/b"})
      EXPECT_EQ(array_in(snapshot("tuned", 10), path), array_in(snapshot("drawn", 10), path))
          << path;
  }
}

// A head of another size; a file may also have a predictor alone.
TEST_F(Finetuning, TakesAFileOfAnotherSizeOnlyIfItIsSkipped) {
  const std::string from = first_run();
  const std::vector<std::string> other = {"--unit", "16", "--max-iterations", "2", "--init", from};
  expect_refused(2, other, "; --init-skip PATTERN leaves arrays at their initial values",
                 ErrorKind::data);
  const Finished job = run(2, "tuned", with(other, {"--init-skip", "predictor"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "(0 arrays)"), 1) << job.err;

  std::vector<NpzEntry> bare;
  {
    const NpzFile file(from);
    const std::string prefix = "updater/model:main/predictor/";
    for (const std::string& name : file.names())
      if (name.starts_with(prefix)) bare.push_back({name.substr(prefix.size()), file.read(name)});
  }
  const std::string predictor = folder / "predictor.npz";
  write_npz(predictor, bare);
  const Finished alone = run(
      1, "alone", {"--max-iterations", "1", "--init", predictor, "--init-skip", "predictor/l3/*"});
  EXPECT_EQ(alone.exit_code, 0) << alone.all();
  EXPECT_EQ(count_of(alone.err, "(4 arrays)"), 1) << alone.err;
}

TEST_F(Finetuning, RefusesPatternsThatChooseNothing) {
  const std::string from = first_run();
  expect_refused(2, {"--init", from, "--init-skip", "predictor/l3,fc*"},
                 "--init-skip fc*: no path of the model matches");
  expect_refused(2, {"--freeze", "l1"}, "--freeze l1: no path of the model matches");
  expect_refused(1, {"--freeze", "**"}, "all parameters of the optimizer's model are frozen");
  expect_refused(1, {"--init-skip", "predictor"}, "--init-skip has no effect without --init FILE");
  expect_refused(1, {"--freeze", "a,,b"}, "--freeze: expected patterns separated by commas");
}

// Whatever exchanges the gradients, and whoever keeps the optimizer's states.
TEST_F(Finetuning, TrainsAllButTheFrozenLayers) {
  const std::string from = first_run();
  for (const auto& [np, flags] : std::vector<std::pair<int, std::vector<std::string>>>{
           {1, {}},
           {2, {"--communicator", "naive"}},
           {2, {"--communicator", "flat", "--shard-optimizer"}},
           {2, {"--communicator", "auto", "--shard", "gradients"}},
           {2, {"--communicator", "hierarchical", "--node-weights", "shared"}},
           {2, {"--communicator", "two_dimensional", "--exchange", "double-buffered"}}}) {
    SCOPED_TRACE(flags.empty() ? "1 rank" : flags[1]);
    const Finished job = run(np, "frozen",
                             with({"--global-batch", "48", "--epoch", "1", "--init", from,
                                   "--freeze", "predictor/l1,predictor/l*/b"},
                                  flags));
    ASSERT_EQ(job.exit_code, 0) << job.all();
    const std::string to = snapshot("frozen", 10);
    for (const char* const path :
         {"predictor/l1/W", "predictor/l1/b", "predictor/l2/b", "predictor/l3/b"})
      EXPECT_EQ(array_in(to, path), array_in(from, path)) << path;
    for (const char* const path : {"predictor/l2/W", "predictor/l3/W"})
      EXPECT_NE(array_in(to, path), array_in(from, path)) << path;
  }
}

// The bits of a run that was not interrupted, frozen parameters and average included.
TEST_F(Finetuning, GoesOnAfterAResume) {
  const std::vector<std::string> flags = {"--global-batch", "48",  "--freeze", "predictor/l1",
                                          "--ema",          "0.9", "--shard",  "gradients"};
  log_of(2, "whole", with(flags, {"--epoch", "2"}));
  log_of(2, "first", with(flags, {"--epoch", "1"}));
  const auto log =
      log_of(2, "second", with(flags, {"--epoch", "2", "--resume", snapshot("first", 10)}));
  EXPECT_EQ(log.back().at("ema/validation/main/loss"),
            read_log("whole").back().at("ema/validation/main/loss"));
  for (const char* const path : {"predictor/l1/W", "predictor/l2/W", "predictor/l3/b"}) {
    EXPECT_EQ(array_in(snapshot("second", 20), path), array_in(snapshot("whole", 20), path));
    EXPECT_EQ(array_in(folder / "second/ema.npz", path, ""),
              array_in(folder / "whole/ema.npz", path, ""));
  }
  EXPECT_EQ(array_in(snapshot("second", 20), "predictor/l1/W"),
            array_in(snapshot("first", 10), "predictor/l1/W"));
  // A run that continues keeps what its snapshot froze.
  const Finished other =
      run(1, "third", {"--global-batch", "48", "--epoch", "2", "--resume", snapshot("first", 10)});
  EXPECT_EQ(other.exit_code, 0) << other.all();
  EXPECT_EQ(count_of(other.err, "continuing with the snapshot's frozen parameters"), 1)
      << other.err;
}

TEST_F(Finetuning, AveragesWeightsForPredictions) {
  for (const int np : {1, 2}) {
    SCOPED_TRACE(np);
    const auto log =
        log_of(np, "averaged", {"--global-batch", "48", "--epoch", "3", "--ema", "0.8"});
    for (const auto& entry : log) {
      EXPECT_NE(entry.at("ema/validation/main/loss"), entry.at("validation/main/loss"));
      EXPECT_TRUE(entry.contains("ema/validation/main/accuracy"));
    }
    const std::string file = folder / "averaged/ema.npz";
    EXPECT_EQ(summary_of(1, {file, data}).at("accuracy"),
              log.back().at("ema/validation/main/accuracy"));
    // And as initial weights.
    const auto started = log_of(np, "started",
                                {"--global-batch", "48", "--epoch", "1", "--init", file,
                                 "--optimizer", "sgd", "--lr", "0"});
    EXPECT_EQ(started.back().at("validation/main/accuracy"),
              log.back().at("ema/validation/main/accuracy"));
  }
  // Another run's results: the next free folder is taken, or the file goes with the rest.
  const Finished beside = run_program({TRAIN_MNIST, "--unit", "32", "--data", data, "--threads",
                                       "1", "--max-iterations", "1", "--out", folder / "averaged"});
  EXPECT_EQ(beside.exit_code, 0) << beside.all();
  EXPECT_TRUE(std::filesystem::exists(folder / "averaged-2/log"));
  log_of(1, "averaged", {"--max-iterations", "1"});
  EXPECT_FALSE(std::filesystem::exists(folder / "averaged/ema.npz"));
  expect_refused(1, {"--ema", "1"}, "--ema: expected a number");
}

TEST_F(Finetuning, PrintsATableOfTheModelInsteadOfTraining) {
  for (const int np : {1, 2}) {
    SCOPED_TRACE(np);
    const Finished job = run(np, "table", {"--summary", "--freeze", "predictor/l1/W"});
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(
        count_of(job.out, "  predictor/l1  Linear                   1x32       25120  50.2 k"), 1)
        << job.out;
    EXPECT_EQ(count_of(job.out, "26506 parameters (106.0 kB), 25088 of them frozen"), 1) << job.out;
    EXPECT_FALSE(std::filesystem::exists(folder / "table"));
  }
  expect_refused(1, {"--summary", "--dry-run"}, "--summary and --dry-run exclude each other");
}

class FinetunedPictures : public TrainingJob {
 protected:
  FinetunedPictures() : TrainingJob({TRAIN_CIFAR, "--conv", "direct", "--arch", "resnet20"}) {
    write_pictures(data, 40, 10);
  }
};

// As --freeze's help says.
TEST_F(FinetunedPictures, LeaveTheStatisticsOfFrozenLayersFollowTheBatches) {
  const std::vector<std::string> flags = {"-b", "10", "--max-iterations", "1", "--ema", "0.5"};
  log_of(1, "first", flags);
  const std::string from = folder / "first/snapshot_iter_1";
  const Finished job =
      run(2, "frozen", with(flags, {"--init", from, "--freeze", "**/gamma,**/beta"}));
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const NpzFile before(from), after(folder / "frozen/snapshot_iter_1");
  const NpzFile averages(folder / "frozen/ema.npz");
  const auto bytes = [](const NpzFile& file, const std::string& name) {
    const Tensor values = std::get<Tensor>(file.read(name));
    return std::string(static_cast<const char*>(values.raw()), values.bytes());
  };
  const std::string model = "updater/model:main/";
  int frozen = 0, statistics = 0, trained = 0;
  for (const std::string& name : after.names()) {
    if (!name.starts_with(model + "predictor/")) continue;
    const std::string path = name.substr(model.size());
    const bool is_statistic = path.ends_with("/avg_mean");
    if (is_statistic || path.ends_with("/gamma")) {
      EXPECT_EQ(bytes(averages, path), bytes(after, name)) << path;
    }
    if (is_statistic) {
      EXPECT_NE(bytes(after, name), bytes(before, name)) << path;
      ++statistics;
    } else if (path.ends_with("/gamma")) {
      EXPECT_EQ(bytes(after, name), bytes(before, name)) << path;
      ++frozen;
    } else if (path.starts_with("predictor/fc/")) {
      EXPECT_NE(bytes(after, name), bytes(before, name)) << path;
      ++trained;
    }
  }
  EXPECT_EQ(statistics, frozen);
  EXPECT_GT(frozen, 15);
  EXPECT_EQ(trained, 2);
}

}  // namespace
}  // namespace tasuki::testing
