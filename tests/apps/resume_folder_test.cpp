// train_mnist --resume: which snapshot of a folder it takes, what it says of it, and what it
// refuses.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "resumed_job.hpp"
#include "saving/model_file.hpp"
#include "saving/npz.hpp"

namespace tasuki::testing {
namespace {

class ResumedFolder : public ResumedJob {};

TEST_F(ResumedFolder, AutoStartsAndResumesInTheSameFolder) {
  const Flags flags = {"-b", "24", "--resume", "auto"};
  const auto whole = without_times(log_of(2, "whole", {"-b", "24", "--epoch", "4"}));
  // What a run that was killed before its first snapshot has left.
  std::filesystem::create_directories(folder / "auto");
  std::ofstream(folder / "auto/log") << "[]";
  const Finished first = run(2, "auto", with(flags, {"--epoch", "2"}));
  expect_once(first, "Output: " + (folder / "auto\n").string());
  EXPECT_EQ(count_of(first.all(), "Resumed"), 0) << first.all();
  const std::string newest = folder / "auto/snapshot_iter_20";
  ASSERT_TRUE(std::filesystem::exists(newest));
  const Finished second = run(2, "auto", with(flags, {"--epoch", "4"}));
  expect_once(second, "Resumed: " + newest + ", epoch 2, iteration 20\n");
  EXPECT_EQ(without_times(read_log("auto")), whole);
  EXPECT_FALSE(std::filesystem::exists(folder / "auto-2"));
  expect_once(run(2, "auto", with(flags, {"--epoch", "4"})), "nothing to do: ");

  // A snapshot that cannot be read is an error, not a missing one.
  for (const auto& file :
       {"auto/snapshot_iter_20", "auto/snapshot_iter_40", "auto/checkpoints/iter_20/state.npz",
        "auto/checkpoints/iter_40/state.npz"})
    std::filesystem::resize_file(folder / file, 1000);
  const Finished damaged = run(2, "auto", flags);
  EXPECT_EQ(damaged.exit_code, static_cast<int>(ErrorKind::data)) << damaged.all();
  EXPECT_EQ(read_log("auto").size(), 4u);
}

// What stands in JSON, and what ranks tell each other, has the same bytes when it is read.
TEST_F(ResumedFolder, AcceptsNonUtf8Paths) {
  const std::string name = "caf\xe9 gr\xc3\xbc\xc3\x9f\x80", out = folder / name;
  const Flags flags = {"-b", "48", "--epoch"};
  const auto whole = without_times(log_of(1, "whole", with(flags, {"2"})));
  for (const std::string& from : Flags{"auto", out}) {
    EXPECT_EQ(run(1, name, with(flags, {"1"})).exit_code, 0);
    const Finished resumed = run(2, name, {"-b", "24", "--epoch", "2", "--resume", from});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.all();
    expect_once(resumed, ", epoch 1, iteration 10\n");
    EXPECT_EQ(read_log(name).size(), whole.size());
  }
  const auto about = parse_json(read_file(std::filesystem::path(out) / "about.json"), "about.json");
  EXPECT_EQ(about.at("flags").at("out"), out);
  const Finished predicted =
      run_program({PREDICT, out, data + "/t10k-images-idx3-ubyte", "--threads", "1", "--quiet"});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.all();
}

// A process may end after its last checkpoint, for example because the disk has no room for more.
TEST_F(ResumedFolder, WritesResultsMissingAfterTheLastCheckpoint) {
  const Flags flags = {"-b", "24", "--epoch", "2"};
  const auto whole = without_times(log_of(2, "whole", flags));
  const std::filesystem::path out = folder / "cut";
  // Where a file is to be.
  std::filesystem::create_directories(out / "step_times.json/in-the-way");
  const Flags again = with(flags, {"--resume", "auto"});
  const Finished cut = run(2, "cut", again);
  EXPECT_EQ(cut.exit_code, static_cast<int>(ErrorKind::cannot_write)) << cut.all();
  EXPECT_EQ(run(2, "cut", again).exit_code, cut.exit_code) << "still in the way";
  std::filesystem::remove_all(out / "step_times.json");
  std::filesystem::remove(out / "snapshot_iter_20");
  write_file(out / "log", "[]");

  const Finished second = run(2, "cut", again);
  expect_once(second, "writing what is missing at the end of the run: ");
  expect_once(second, "\n20 steps in ");
  EXPECT_EQ(count_of(second.all(), "nothing to do"), 0) << second.all();
  EXPECT_EQ(without_times(read_log("cut")), whole);
  EXPECT_EQ(parse_json(read_file(out / "step_times.json"), "times").size(), 2U);
  const auto weights = [](const std::string& file) {
    const Tensor found = std::get<Tensor>(NpzFile(file).read("updater/model:main/predictor/l1/W"));
    return std::vector<float>(found.span<float>().begin(), found.span<float>().end());
  };
  EXPECT_EQ(weights(out / "snapshot_iter_20"), weights(folder / "whole/snapshot_iter_20"));
  EXPECT_FALSE(std::filesystem::exists(out / "checkpoints/iter_20-2"));

  expect_once(run(2, "cut", again), "nothing to do: ");
  // Its files are looked for, too.
  std::filesystem::remove(out / "snapshot_iter_20");
  EXPECT_EQ(count_of(run(2, "cut", again).all(), "nothing to do"), 0);
  EXPECT_TRUE(std::filesystem::exists(out / "snapshot_iter_20"));
}

// It comes to the iteration in which an earlier run ended, and is interrupted before its own end.
TEST_F(ResumedFolder, IgnoresTheEndOfAnEarlierRun) {
  const Flags flags = {"-b", "48", "--epoch", "2", "--snapshot-every", "1"};
  log_of(1, "run", flags);
  const std::filesystem::path out = folder / "run";
  ASSERT_TRUE(std::filesystem::exists(out / "finished.json"));
  // Where a file is to be.
  std::filesystem::remove(out / "step_times.json");
  std::filesystem::create_directories(out / "step_times.json/in-the-way");
  for (const std::string& from : Flags{out / "snapshot_iter_10", "auto"}) {
    const Finished cut = run(1, "run", with(flags, {"--resume", from}));
    EXPECT_EQ(cut.exit_code, static_cast<int>(ErrorKind::cannot_write)) << cut.all();
    EXPECT_FALSE(std::filesystem::exists(out / "finished.json"));
  }
  std::filesystem::remove_all(out / "step_times.json");
  const Flags again = with(flags, {"--resume", "auto"});
  expect_once(run(1, "run", again), "writing what is missing at the end of the run: ");
  expect_once(run(1, "run", again), "nothing to do: ");
}

// In the middle of a run, too.
TEST_F(ResumedFolder, WritesTheSnapshotDueWithTheCheckpoint) {
  const Flags flags = {"-b",    "48", "--epoch", "2", "--snapshot-every", "1", "--checkpoint-every",
                       "1epoch"};
  log_of(1, "run", flags);
  std::filesystem::remove(folder / "run/snapshot_iter_10");
  const Finished job = run(1, "run", with(flags, {"--resume", folder / "run/checkpoints/iter_10"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(std::filesystem::exists(folder / "run/snapshot_iter_10"));
}

TEST_F(ResumedFolder, NamesNonFiniteInitialWeights) {
  train({});
  std::vector<NpzEntry> entries;
  for (const NpzFile file(snapshot); const std::string& name : file.names())
    entries.push_back({name, file.read(name)});
  const auto weights =
      std::ranges::find(entries, "updater/model:main/predictor/l2/W", &NpzEntry::name);
  std::get<Tensor>(weights->value).data<float>()[3] = NAN;
  write_npz(folder / "not-finite", entries);
  const Finished job = run(2, "second", {"--init", folder / "not-finite"});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
  EXPECT_EQ(count_of(job.err,
                     "not-finite: predictor/l2/W has values that are not finite; "
                     "use weights that were saved before training diverged"),
            1)
      << job.err;
}

// Of an older version.
TEST_F(ResumedFolder, FallsBackToTheBestSnapshot) {
  const Flags flags = {"-b", "48", "--checkpoint-every", "none", "--epoch"};
  const std::string best = folder / "auto/snapshot_best";
  run(1, "auto", with(flags, {"1"}));
  std::filesystem::rename(folder / "auto/snapshot_iter_10", best);
  for (const std::string& from : Flags{"auto", folder / "auto"}) {
    const Finished job = run(1, "auto", with({"--resume", from}, with(flags, {"3"})));
    expect_once(job, "there is no checkpoint or snapshot_iter_<number> to go on from in ");
    expect_once(job, "Resumed: " + best + ", epoch 1, iteration 10\n");
    std::filesystem::remove(folder / "auto/snapshot_iter_30");
  }
}

// Those of the run that was left stay, and are not taken for this one's.
TEST_F(ResumedFolder, AutoResumesFromTheLatestSave) {
  const Flags flags = {"-b", "48", "--epoch", "4", "--snapshot-every", "1"};
  log_of(1, "auto", flags);
  run(1, "auto",
      with(flags, {"--resume", folder / "auto/snapshot_iter_10", "--max-iterations", "25"}));
  ASSERT_TRUE(std::filesystem::exists(folder / "auto/snapshot_iter_25"));
  for (const std::string& from : Flags{"auto", folder / "auto"}) {
    const Finished job = run(1, "auto", with(flags, {"--resume", from, "--dry-run"}));
    expect_once(job, "Resumed: " + (folder / "auto/snapshot_iter_25").string() + ", ");
    for (const std::string left : {"30", "40"})
      expect_once(job, "ignoring " + (folder / ("auto/snapshot_iter_" + left)).string() +
                           ": it belongs to an abandoned run; the last run was at "
                           "snapshot_iter_25\n");
  }
}

TEST_F(ResumedFolder, NamesMisspeltValuesByTheFirstEvaluation) {
  for (const std::string flag : {"--early-stopping", "--keep-best"}) {
    SCOPED_TRACE(flag);
    const auto first = run(2, "first", {"-b", "24", flag, "main/lost"});
    EXPECT_EQ(first.exit_code, static_cast<int>(ErrorKind::usage)) << first.all();
    EXPECT_EQ(count_of(first.err, "\"main/lost\", which was not observed up to iteration 1 "), 1);
    const auto later = run(2, "later", {"-b", "24", flag, "validation/main/lost"});
    EXPECT_EQ(later.exit_code, static_cast<int>(ErrorKind::usage)) << later.all();
    EXPECT_EQ(count_of(later.err,
                       "continue with --resume " + (folder / "later/checkpoints/iter_10").string()),
              1)
        << later.all();
    EXPECT_TRUE(std::filesystem::exists(folder / "later/checkpoints/iter_10"));
  }
}

TEST_F(ResumedFolder, AutoUsesInitialWeightsOnlyForNewRuns) {
  train({});
  const Flags flags = {"-b", "48", "--init", snapshot, "--resume", "auto"};
  const std::string line = "Weights: " + snapshot + '\n';
  expect_once(run(1, "auto", with(flags, {"--epoch", "1"})), line);
  const Finished second = run(1, "auto", with(flags, {"--epoch", "2"}));
  expect_once(second, "Resumed: ");
  EXPECT_EQ(count_of(second.all(), line), 0) << second.all();
}

// The rate rises, so that an epoch is worse than all before it.
TEST_F(ResumedFolder, ContinuesEarlyStoppingCounts) {
  const Flags flags = {"-b", "48", "--warmup", "30", "--early-stopping", "lr", "--patience"};
  const Finished first = run(1, "first", with(flags, {"2"}));
  expect_once(first, "stopped early: lr was not better than ");
  expect_once(first, "Num epoch: 20, or until lr has not improved for 2\n");
  EXPECT_EQ(read_log("first").size(), 3u);

  const Flags resumed = with({"--resume", folder / "first"}, flags);
  expect_once(
      run(1, "first", with(resumed, {"2"})),
      "snapshot_iter_30 is where --early-stopping lr stopped; raise --patience to continue\n");
  expect_once(run(1, "first", with(resumed, {"4"})), "stopped early");
  EXPECT_EQ(read_log("first").size(), 5u);

  const Finished unknown = run(2, "other", {"-b", "24", "--early-stopping", "main/lost"});
  EXPECT_EQ(unknown.exit_code, static_cast<int>(ErrorKind::usage)) << unknown.all();
  EXPECT_EQ(count_of(unknown.err, "watches \"main/lost\", which was not observed up to"), 1);
}

TEST_F(ResumedFolder, KeepAndKeepBestRemoveOldCheckpoints) {
  const auto there = [this](const std::string& in, const std::string& start) {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder / in))
      if (file.path().filename().string().starts_with(start))
        names.push_back(file.path().filename());
    std::ranges::sort(names);
    return names;
  };
  const auto checkpoints = [&] { return there("first/checkpoints", ""); };
  const Flags flags = {"-b",     "48", "--snapshot-every", "1",  "--checkpoint-every", "1epoch",
                       "--keep", "2",  "--keep-best",      "lr", "--warmup",           "30"};
  run(2, "first", with(flags, {"--epoch", "3"}));  // the first epoch has the least rate
  EXPECT_EQ(checkpoints(), (Flags{"iter_10", "iter_15", "iter_5"}));
  EXPECT_EQ(there("first", "snapshot"),
            (Flags{"snapshot_iter_10", "snapshot_iter_15", "snapshot_iter_5"}));
  const std::string best = folder / "first/checkpoints/iter_5";
  run(2, "first", with({"--resume", folder / "first"}, with(flags, {"--epoch", "5"})));
  EXPECT_EQ(checkpoints(), (Flags{"iter_20", "iter_25", "iter_5"}))
      << "a resumed run knows the best value";
  for (const std::string& from : Flags{best, folder / "first/best"})
    expect_once(run(2, "second", {"-b", "48", "--resume", from, "--dry-run"}),
                "Resumed: " + best + ", epoch 1, iteration 5\n");

  // They are results like the others.
  run(1, "first", {"-b", "48", "--epoch", "1", "--overwrite"});
  EXPECT_EQ(checkpoints(), (Flags{"iter_10"}));
  EXPECT_EQ(there("first", "snapshot"), (Flags{"snapshot_iter_10"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "first/best"));
  const Finished unknown = run(1, "other", {"-b", "48", "--keep-best", "main/lost"});
  EXPECT_EQ(unknown.exit_code, static_cast<int>(ErrorKind::usage)) << unknown.all();
}

TEST_F(ResumedFolder, DryRunChecksSnapshotAndFolder) {
  train({"--max-iterations", "13"});
  snapshot = folder / "first/snapshot_iter_13";
  const std::map<std::string, std::string> good = {
      {"--unit", "32"}, {"-b", "48"}, {"--resume", snapshot}, {"--out", folder / "a/b"}};
  std::ofstream(folder / "broken") << "no snapshot";
  std::ofstream(folder / "file") << "in the way";
  struct Case {
    std::string flag, value, line;
    ErrorKind kind;
  };
  const Case cases[] = {
      {"--resume", folder / "none", folder / "none", ErrorKind::missing},
      {"--resume", folder / "broken", folder / "broken", ErrorKind::data},
      {"--unit", "31", "is of another model", ErrorKind::data},
      {"--seed", "1", "run had seed 0, this run has seed 1", ErrorKind::config},
      {"-b", "24", "this run has global_batch 24", ErrorKind::config},
      {"--out", folder / "file", folder / "file", ErrorKind::cannot_write},
      {"--out", folder / "file/below", folder / "file/below", ErrorKind::cannot_write},
      {"--out", "/proc/tasuki", "/proc/tasuki", ErrorKind::cannot_write},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.flag + ' ' + c.value);
    auto flags = good;
    flags[c.flag] = c.value;
    const Finished job = dry_run(flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(c.kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), c.line), 1) << job.all();
    EXPECT_EQ(job.out, "");
  }
  expect_once(dry_run(good), "Resumed: " + snapshot + ", epoch 1, iteration 13\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_F(ResumedFolder, FolderMeansItsNewestIntactSnapshot) {
  train({"--snapshot-every", "1", "--checkpoint-every", "none"});
  const std::string newest = snapshot, before = folder / "first/snapshot_iter_10";
  std::ofstream(folder / "first/snapshot_iter_99.tmp") << "of a run that was killed";
  snapshot = folder / "first";
  expect_once(go_on({}), "Resumed: " + newest + ", epoch 2, iteration 20\n");
  EXPECT_EQ(read_log("second").size(), 4u);

  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  for (const int np : {1, 2}) {
    const Finished job =
        run(np, "second", {"-b", np == 1 ? "48" : "24", "--epoch", "2", "--resume", snapshot});
    expect_once(job, "Resumed: " + before + ", epoch 1, iteration 10\n");
    expect_once(job, "; using the one before it\n");
    EXPECT_EQ(count_of(job.err, "warning: cannot read " + newest + ": "), 1) << job.all();
  }
  const auto refused = [&](ErrorKind kind, const std::string& line) {
    const Finished job = go_on({});
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, line), 1) << job.all();
  };
  std::ofstream(before) << "no snapshot";
  refused(ErrorKind::data, before);
  snapshot = data;
  refused(ErrorKind::missing,
          "--resume " + data + ": there is no checkpoint or snapshot_iter_<number> in this");
}

// Whatever --quiet says; nothing is written.
TEST_F(ResumedFolder, PrintsResumeCommandWhenFinished) {
  train({});
  for (const Flags& flags : {Flags{"--epoch", "2"}, {"--epoch", "1"}, {"--max-iterations", "20"}}) {
    const Finished job = go_on(with({"--quiet"}, flags));
    expect_once(job, fmt::format("nothing to do: {} is at the end of {} {}; raise {} to continue\n",
                                 snapshot, flags[0], flags[1], flags[0]));
    EXPECT_EQ(job.out, "");
    EXPECT_FALSE(std::filesystem::exists(folder / "second"));
  }
}

TEST_F(ResumedFolder, ReportsDifferentData) {
  train({});
  expect_once(go_on({"--examples", "432"}),
              "run had other data: 480 examples of 784; this run has 432 of 784\n");
  std::fstream labels(data + "/train-labels-idx1-ubyte", std::ios::in | std::ios::out);
  labels.seekg(-1, std::ios::end);
  const bool was_one = labels.get() == 1;
  labels.seekp(-1, std::ios::end);
  labels.put(was_one ? '\2' : '\1');
  labels.close();
  expect_once(go_on({}), "this run has 480 of 784, with other labels\n");
}

// Of a snapshot, or of its model or predictor alone in a file.
TEST_F(ResumedFolder, InitStartsFromWeights) {
  train({});
  const double before = values_of(read_log("first"), "validation/main/accuracy").back();
  const Flags still = {"-b", "48", "--epoch", "1", "--optimizer", "sgd", "--lr", "0"};
  Classifier model(std::make_unique<MLP>(784, 32, 10));
  load_npz(snapshot, model, "updater/model:main/");
  save_npz(folder / "model", model);
  save_npz(folder / "predictor", model.predictor());
  for (const std::string& file : Flags{snapshot, folder / "model", folder / "predictor"}) {
    const Finished job = run(2, "init", with(still, {"--init", file}));
    expect_once(job, "Weights: " + file + '\n');
    EXPECT_EQ(values_of(read_log("init"), "validation/main/accuracy"), std::vector{before});
  }

  // Weights that the model lacks are reported; other entries of a snapshot are not.
  std::vector<NpzEntry> more = {{"predictor/l4/W", Tensor::zeros(Shape{1})},
                                {"x", Tensor::zeros(Shape{1})}};
  for (const auto& [path, parameter] : model.parameters())
    more.push_back({path, parameter->value()});
  write_npz(folder / "more", more);
  expect_once(run(2, "init", with(still, {"--init", folder / "more"})),
              "warning: 2 of the entries in " + (folder / "more").string() +
                  " are not in the model and are ignored: predictor/l4/W, x\n");
  EXPECT_EQ(count_of(run(1, "init", with(still, {"--init", snapshot})).all(), "not in the model"),
            0);

  const auto refused = [&](const Flags& flags, const std::string& line, ErrorKind kind) {
    const Finished failed = run_program(with({TRAIN_MNIST, "--data", data}, flags));
    EXPECT_EQ(failed.exit_code, static_cast<int>(kind)) << failed.all();
    EXPECT_EQ(count_of(failed.all(), line), 1) << failed.all();
  };
  refused({"--init", snapshot}, "is of another model", ErrorKind::data);
  refused({"--init", folder / "none"}, folder / "none", ErrorKind::missing);
  refused({"--init", data + "/train-labels-idx1-ubyte", "--dry-run"}, "train-labels",
          ErrorKind::data);
  refused({"--init", snapshot, "--resume", snapshot}, "--init and --resume", ErrorKind::usage);
}

// Data that cannot be read to their end are not read at all.
TEST_F(ResumedFolder, RejectsWrongSnapshotBeforeReadingData) {
  train({});
  std::fstream labels(data + "/train-labels-idx1-ubyte", std::ios::in | std::ios::out);
  labels.seekp(-1, std::ios::end);
  labels.put('\x7f');
  labels.close();
  EXPECT_EQ(count_of(go_on({}).all(), "found 127 at example 479"), 1);
  EXPECT_EQ(count_of(go_on({"--seed", "7"}).all(), "run had seed 0"), 1);
}

}  // namespace
}  // namespace tasuki::testing
