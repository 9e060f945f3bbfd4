// train_mnist --resume: whose settings count, and its messages.

#include <algorithm>
#include <map>

#include "tasuki/core/error.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/training/snapshots/model_file.hpp"
#include "tasuki/training/snapshots/npz.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using Flags = std::vector<std::string>;

// Ten steps an epoch.
class ResumedJob : public TrainMnist {
 protected:
  // A log without measured times.
  static nlohmann::json without_times(nlohmann::json log) {
    for (auto& entry : log)
      std::erase_if(entry.get_ref<nlohmann::json::object_t&>(), [](const auto& value) {
        return value.first.find("time") != std::string::npos;
      });
    return log;
  }
  // A run of two epochs; its log.
  nlohmann::json train(const Flags& flags) {
    return log_of(1, "first", with({"-b", "48", "--epoch", "2"}, flags));
  }
  // From its snapshot to the end of the fourth, in place of another run that did.
  Finished go_on(const Flags& flags) {
    std::filesystem::remove_all(folder / "second");
    return run(1, "second", with({"-b", "48", "--epoch", "4", "--resume", snapshot}, flags));
  }
  // Makes the snapshot one that another program might have written.
  void take_flags_away() const {
    std::vector<NpzEntry> entries;
    {
      const NpzFile file(snapshot);
      for (const std::string& name : file.names())
        if (!name.starts_with("extensions/Flags/")) entries.push_back({name, file.read(name)});
    }
    write_npz(snapshot, entries);
  }
  // With these flags and the data alone, which may then be given otherwise.
  Finished dry_run(const std::map<std::string, std::string>& flags) {
    Flags words = {TRAIN_MNIST, "--dry-run", "--data", data};
    for (const auto& [flag, value] : flags) words.insert(words.end(), {flag, value});
    return run_program(words);
  }
  void expect_once(const Finished& job, const std::string& text) {
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.all(), text), 1) << text << "\n--- in ---\n" << job.all();
  }

  std::string snapshot = folder / "first/snapshot_iter_20";
};

TEST_F(ResumedJob, FlagsThatAreGivenWinOverTheSnapshot) {
  train({"--optimizer", "momentum_sgd", "--lr", "0.05", "--momentum", "0.5"});
  const Finished job = go_on({"--optimizer", "momentum_sgd", "--lr", "0", "--momentum", "0"});
  expect_once(job,
              "continuing with settings that differ from the snapshot's: lr 0 instead of 0.05, "
              "momentum 0 instead of 0.5");
  expect_once(job, "Optimizer: MomentumSGD, lr 0, momentum 0\n");
  expect_once(job, "Resumed: " + snapshot + ", epoch 2, iteration 20\n");
  for (const auto& entry : read_log("second"))
    EXPECT_EQ(entry.at("lr"), entry.at("iteration") > 20 ? 0 : 0.05);
  const auto accuracy = values_of(read_log("second"), "validation/main/accuracy");
  ASSERT_EQ(accuracy.size(), 4u);
  EXPECT_EQ(accuracy[2], accuracy[3]) << "weights have changed";
}

TEST_F(ResumedJob, AdamsFlagsWinToo) {
  train({"--weight-decay", "0.25"});
  const Finished job = go_on({"--lr", "0.1"});
  expect_once(job, "alpha 0.1 instead of 0.001");
  expect_once(job, "Optimizer: Adam, alpha 0.1, ");
  expect_once(job, "weight_decay_rate 0, weight_decay 0.25\n");
  EXPECT_EQ(count_of(job.all(), "warning"), 0) << job.all();
  // Of the update just done, as Chainer's observe_lr has it.
  const auto rate = [](double alpha, int t) {
    return alpha * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
  };
  const auto log = read_log("second");
  EXPECT_DOUBLE_EQ(log.at(1).at("lr"), rate(0.001, 20));
  EXPECT_DOUBLE_EQ(log.at(2).at("lr"), rate(0.1, 30));
}

// As made when --weight-decay was AdamW's with Adam as well, or by a program of the user's own.
TEST_F(ResumedJob, AnAdamSnapshotThatDecaysWeightsIsSaid) {
  for (const bool has_flags : {true, false}) {
    SCOPED_TRACE(has_flags);
    train({"--weight-decay", "0.25"});
    std::vector<NpzEntry> entries;
    {
      const NpzFile file(snapshot);
      for (const std::string& name : file.names()) {
        if (!has_flags && name.starts_with("extensions/Flags/")) continue;
        entries.push_back({name, file.read(name)});
        if (name == "updater/optimizer:main/hyperparameters/weight_decay_rate")
          std::get<Tensor>(entries.back().value).data<double>()[0] = 0.25;
        if (name == "updater/optimizer:main/hooks") entries.back().value = std::string("none");
      }
    }
    write_npz(snapshot, entries);
    const Finished job = go_on({});
    expect_once(
        job,
        fmt::format(
            "the snapshot's Adam decays weights by weight_decay_rate 0.25, as --weight-decay did "
            "in older versions; this run does not: its --weight-decay {} adds to the gradients",
            has_flags ? "0.25" : "0"));
    EXPECT_EQ(count_of(job.all(), "weight_decay_rate 0, weight_decay 0.25\n"), has_flags ? 1 : 0)
        << job.all();
    const NpzFile file(folder / "second/snapshot_iter_40");
    const auto rate =
        std::get<Tensor>(file.read("updater/optimizer:main/hyperparameters/weight_decay_rate"));
    EXPECT_EQ(rate.data<double>()[0], 0);
  }
}

TEST_F(ResumedJob, FlagsThatAreNotGivenAreTheSnapshots) {
  const Flags flags = {
      "--optimizer",    "momentum_sgd", "--lr",     "0.05", "--momentum",   "0.5",
      "--weight-decay", "0.05",         "--warmup", "3",    "--lr-scaling", "sqrt"};
  const auto whole = log_of(1, "whole", with({"-b", "48", "--epoch", "4"}, flags));
  train(flags);
  const Finished job = go_on({});
  EXPECT_EQ(without_times(read_log("second")), without_times(whole));
  EXPECT_EQ(count_of(job.all(), "instead of"), 0) << job.all();
  EXPECT_EQ(count_of(job.all(), "weight_decay 0.05; lr rising for 3 epochs\n"), 1) << job.all();

  const Finished printed = go_on({"--print-config", "--momentum", "0.7"});
  EXPECT_NE(printed.out.find("# snapshot"), std::string::npos) << printed.out;
  EXPECT_EQ(count_of(printed.out, "\nmomentum = 0.7 "), 1) << printed.out;
  EXPECT_EQ(count_of(printed.out, "\nweight-decay = 0.05 "), 1) << printed.out;
}

// Another program's snapshot has no flags, but the numbers that they would give.
TEST_F(ResumedJob, ASnapshotWithoutFlagsHasItsNumbers) {
  train({"--optimizer", "momentum_sgd", "--lr", "0.05", "--momentum", "0.5", "--warmup", "1"});
  take_flags_away();
  const Finished job = go_on({"--momentum", "0.75"});
  expect_once(job, "the snapshot's: momentum 0.75 instead of 0.5\n");
  expect_once(job, "Optimizer: MomentumSGD, lr 0.05, momentum 0.75\n");
}

TEST_F(ResumedJob, ARateWithoutItsFlagsIsNotScaledTwice) {
  const Flags scaling = {"--lr-scaling", "linear", "--lr-reference-batch", "24"};
  train(with({"--optimizer", "sgd", "--lr", "0.05"}, scaling));  // the batch is 48
  take_flags_away();
  const Finished same = go_on({});
  expect_once(same, "Optimizer: SGD, lr 0.1\n");
  EXPECT_EQ(count_of(same.all(), "instead of"), 0) << same.all();
  expect_once(go_on(with({"--lr", "0.05"}, scaling)),
              "Optimizer: SGD, lr 0.1 = 0.05 x 2 (linear scaling: global batch 48, recipe 24)\n");
}

TEST_F(ResumedJob, WeightDecayThatGoesIsSaid) {
  train({"--optimizer", "sgd", "--weight-decay", "0.05"});
  expect_once(go_on({"--weight-decay", "0"}), "gradient hooks WeightDecay(0.05); continuing with");
}

TEST_F(ResumedJob, AnotherOptimizerIsRefusedAsThat) {
  train({"--optimizer", "momentum_sgd", "--momentum", "0.5"});
  for (const std::string dry : {"false", "true"}) {
    const Finished job = go_on({"--optimizer", "sgd", "--dry-run=" + dry});
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
    EXPECT_EQ(count_of(job.all(), "run used MomentumSGD, this run uses SGD"), 1) << job.all();
  }
}

// As if it had been there from the start.
TEST_F(ResumedJob, AScheduleThatIsNewStartsWithTheRunNotWithItsRest) {
  const Flags sgd = {"--optimizer", "sgd", "--lr", "0.1"};
  for (const Flags& schedule : {Flags{"--warmup", "4"}, Flags{"--lr-schedule", "steps"}}) {
    SCOPED_TRACE(schedule[0]);
    const auto whole = log_of(1, "whole", with(with({"-b", "48", "--epoch", "4"}, sgd), schedule));
    train(sgd);
    expect_once(go_on(schedule), schedule[0] == "--warmup"
                                     ? "snapshot's: warmup 4 instead of 0"
                                     : "snapshot's: lr-schedule steps instead of constant");
    const auto rates = values_of(read_log("second"), "lr");
    const auto expected = values_of(whole, "lr");
    ASSERT_EQ(rates.size(), 4u);
    EXPECT_NE(expected[2], 0.1);
    for (std::size_t i = 2; i < 4; ++i) EXPECT_DOUBLE_EQ(rates[i], expected[i]) << i;
  }
}

// Made by make_old_snapshot.py with a version that knew no groups, frozen parameters or named
// fields.
TEST_F(ResumedJob, ASnapshotOfAnOldVersionContinuesAsThatVersionDid) {
  const Finished job = run(1, "second",
                           {"-b", "48", "--unit", "2", "--epoch", "2", "--resume", OLD_SNAPSHOT,
                            "--out", folder / "second"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  const NpzFile found(folder / "second/snapshot_iter_20");
  const auto expected = nlohmann::json::parse(std::ifstream(OLD_CONTINUATION));
  ASSERT_EQ(expected.size(), 12U);  // weights and biases of three layers, and their states
  for (const auto& [name, values] : expected.items()) {
    const auto tensor = std::get<Tensor>(found.read(name));
    const auto numbers = tensor.span<float>();
    const std::size_t stride = numbers.size() > 100 ? 16 : 1;
    ASSERT_EQ((numbers.size() + stride - 1) / stride, values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(numbers[i * stride], values[i].get<float>(), 1e-5) << name << " " << i;
  }
}

// In the middle of the run; the flags are the snapshot's.
TEST_F(ResumedJob, SchedulesAndHooksGoOnBitForBit) {
  const Flags sgd = {"-b", "48", "--epoch", "4", "--optimizer", "sgd"};
  const std::vector<Flags> cases = {
      {"--lr-schedule", "cosine", "--warmup", "1", "--lr", "0.5"},
      {"--lr-schedule", "polynomial", "--lr-power", "2", "--clip-norm", "0.5", "--lr", "0.5"},
      {"--lr-schedule", "steps", "--lr-drops", "1.5,3", "--lr-drop-factor", "0.25", "--lars",
       "--weight-decay", "0.01", "--no-decay-1d", "--lr", "0.02"}};
  snapshot = folder / "first/snapshot_iter_17";
  for (const Flags& flags : cases) {
    SCOPED_TRACE(flags[1]);
    const auto whole = log_of(1, "whole", with(sgd, flags));
    log_of(1, "first", with(with(sgd, flags), {"--max-iterations", "17"}));
    const Finished job = go_on({});
    EXPECT_EQ(count_of(job.all(), "instead of"), 0) << job.all();
    const auto resumed = without_times(read_log("second"));
    ASSERT_GE(resumed.size(), 4u);
    for (const std::size_t from_end : {1u, 2u})  // whole epochs after the resume
      EXPECT_EQ(resumed.at(resumed.size() - from_end), without_times(whole).at(4 - from_end));
    EXPECT_NE(values_of(whole, "lr").front(), values_of(whole, "lr").back());
  }
  // Another schedule than the snapshot's takes none of its drops.
  expect_once(go_on({"--lr-schedule", "cosine"}),
              "the snapshot's: lr-schedule cosine instead of steps\n");
}

// What rounding and compressing leaves for the next step is a part of the snapshot.
TEST_F(ResumedJob, WhatGradientsLackedGoesOnBitForBit) {
  const std::vector<Flags> cases = {
      {"--communicator", "naive", "--wire-dtype", "bf16", "--error-feedback"},
      {"--compress", "powersgd:2"}};
  snapshot = folder / "first/snapshot_iter_7";
  for (const Flags& flags : cases) {
    SCOPED_TRACE(flags.back());
    const Flags all = with({"-b", "24", "--epoch", "2"}, flags);
    const auto whole = log_of(2, "whole", all);
    log_of(2, "first", with(all, {"--max-iterations", "7"}));
    std::filesystem::remove_all(folder / "second");
    const Finished job = run(2, "second", with(all, {"--resume", snapshot}));
    ASSERT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.all(), "warning"), 0) << job.all();
    EXPECT_EQ(without_times(read_log("second")).back(), without_times(whole).back());
    // At the end of an epoch a run may go on with other ranks, then without.
    std::filesystem::remove_all(folder / "second");
    const Finished more = run(
        3, "second",
        with(flags, {"-b", "16", "--epoch", "3", "--resume", folder / "whole/snapshot_iter_20"}));
    EXPECT_EQ(count_of(more.all(), "continuing without it"), 1) << more.all();
  }
}

// Half as many steps an epoch: the schedule is about epochs, not about the steps that were counted.
TEST_F(ResumedJob, SchedulesKeepTheirEpochsWithOtherBatches) {
  const std::vector<Flags> cases = {{"--lr-schedule", "cosine"},
                                    {"--lr-schedule", "polynomial", "--lr-power", "2"},
                                    {"--lr-schedule", "steps", "--lr-drops", "1,2.5,3.5"},
                                    {"--warmup", "4"}};
  const Flags sgd = {"--epoch", "4", "--optimizer", "sgd", "--lr", "0.1"};
  for (const Flags& schedule : cases) {
    SCOPED_TRACE(schedule.back());
    const Flags flags = with(sgd, schedule);
    const auto one = log_of(1, "whole", with({"-b", "48"}, flags));
    const auto two = log_of(2, "whole", with({"-b", "48"}, flags));
    log_of(1, "first", with(with({"-b", "48"}, flags), {"--max-iterations", "20"}));
    std::filesystem::remove_all(folder / "second");
    const Finished job = run(2, "second", {"-b", "48", "--epoch", "4", "--resume", snapshot});
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const auto found = values_of(read_log("second"), "lr");
    auto expected = values_of(one, "lr");  // of each epoch's last step
    const auto rest = values_of(two, "lr");
    ASSERT_EQ(expected.size(), 4u);
    ASSERT_EQ(rest.size(), 4u);
    std::copy(rest.begin() + 2, rest.end(), expected.begin() + 2);
    EXPECT_EQ(found, expected);
  }
}

TEST_F(ResumedJob, TheLengthOfTheRunIsTheSnapshots) {
  const Flags flags = {"-b", "48", "--epoch", "4", "--optimizer", "sgd"};
  const Flags cosine = with(flags, {"--lr-schedule", "cosine"});
  const auto whole = without_times(log_of(1, "whole", cosine));
  const auto cut = [&](const Flags& run_flags) {
    log_of(1, "first", with(run_flags, {"--max-iterations", "20"}));
    std::filesystem::remove_all(folder / "second");
  };
  cut(cosine);
  const Finished same = run(1, "second", {"-b", "48", "--resume", snapshot});
  EXPECT_EQ(count_of(same.all(), "instead of"), 0) << same.all();
  EXPECT_EQ(without_times(read_log("second")), whole);

  for (const auto& [schedule, is_said] : std::map<std::string, bool>{{"cosine", true},
                                                                     {"polynomial", true},
                                                                     {"steps", true},
                                                                     {"halving", false},
                                                                     {"constant", false}}) {
    SCOPED_TRACE(schedule);
    cut(with(flags, {"--lr-schedule", schedule}));
    const Finished longer = run(1, "second", {"-b", "48", "--epoch", "5", "--resume", snapshot});
    EXPECT_EQ(count_of(longer.all(), "epoch 5 instead of 4"), is_said ? 1 : 0) << longer.all();
    EXPECT_EQ(read_log("second").size(), 5u);
  }
  // Drops that were chosen do not depend on it.
  cut(with(flags, {"--lr-schedule", "steps", "--lr-drops", "3"}));
  const Finished chosen = run(1, "second", {"-b", "48", "--epoch", "5", "--resume", snapshot});
  EXPECT_EQ(count_of(chosen.all(), "instead of"), 0) << chosen.all();
}

TEST_F(ResumedJob, AutoStartsInItsFolderAndGoesOnThere) {
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
  for (const auto& file : {"auto/snapshot_iter_20", "auto/snapshot_iter_40"})
    std::filesystem::resize_file(folder / file, 1000);
  const Finished damaged = run(2, "auto", flags);
  EXPECT_EQ(damaged.exit_code, static_cast<int>(ErrorKind::data)) << damaged.all();
  EXPECT_EQ(read_log("auto").size(), 4u);
}

TEST_F(ResumedJob, TheBestSnapshotStandsForARunThatHasNoOther) {
  const Flags flags = {"-b", "48", "--keep-best", "lr", "--warmup", "30", "--epoch"};
  run(1, "auto", with(flags, {"2"}));  // the first epoch has the least rate
  std::filesystem::remove(folder / "auto/snapshot_iter_20");
  const std::string best = folder / "auto/snapshot_best";
  const auto time = std::filesystem::last_write_time(best);
  for (const std::string& from : Flags{"auto", folder / "auto"}) {
    const Finished job = run(1, "auto", with({"--resume", from}, with(flags, {"3"})));
    expect_once(job, "there is no snapshot_iter_<number> to go on from in ");
    expect_once(job, "Resumed: " + best + ", epoch 1, iteration 10\n");
    EXPECT_EQ(std::filesystem::last_write_time(best), time);
    std::filesystem::remove(folder / "auto/snapshot_iter_30");
  }
}

// Those of the run that was left stay, and are not taken for this one's.
TEST_F(ResumedJob, AutoTakesWhatWasSavedLast) {
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

TEST_F(ResumedJob, AMisspeltValueIsNamedAfterTheFirstEvaluationAtTheLatest) {
  for (const std::string flag : {"--early-stopping", "--keep-best"}) {
    SCOPED_TRACE(flag);
    const auto first = run(2, "first", {"-b", "24", flag, "main/lost"});
    EXPECT_EQ(first.exit_code, static_cast<int>(ErrorKind::usage)) << first.all();
    EXPECT_EQ(count_of(first.err, "\"main/lost\", which was not observed up to iteration 1 "), 1);
    const auto later = run(2, "later", {"-b", "24", flag, "validation/main/lost"});
    EXPECT_EQ(later.exit_code, static_cast<int>(ErrorKind::usage)) << later.all();
    EXPECT_EQ(count_of(later.err,
                       "continue with --resume " + (folder / "later/snapshot_iter_10").string()),
              1)
        << later.all();
    EXPECT_TRUE(std::filesystem::exists(folder / "later/snapshot_iter_10"));
  }
}

TEST_F(ResumedJob, AutoUsesInitialWeightsForANewRunOnly) {
  train({});
  const Flags flags = {"-b", "48", "--init", snapshot, "--resume", "auto"};
  const std::string line = "Weights: " + snapshot + '\n';
  expect_once(run(1, "auto", with(flags, {"--epoch", "1"})), line);
  const Finished second = run(1, "auto", with(flags, {"--epoch", "2"}));
  expect_once(second, "Resumed: ");
  EXPECT_EQ(count_of(second.all(), line), 0) << second.all();
}

// The rate rises, so that an epoch is worse than all before it.
TEST_F(ResumedJob, EarlyStoppingCountsOn) {
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

TEST_F(ResumedJob, KeepRemovesOldSnapshotsAndKeepBestTheOthers) {
  const auto there = [this] {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder / "first"))
      if (file.path().filename().string().starts_with("snapshot"))
        names.push_back(file.path().filename());
    std::ranges::sort(names);
    return names;
  };
  const Flags flags = {"-b",          "48", "--snapshot-every", "1",  "--keep", "2",
                       "--keep-best", "lr", "--warmup",         "30", "--epoch"};
  run(2, "first", with(flags, {"3"}));  // the first epoch has the least rate
  EXPECT_EQ(there(), (Flags{"snapshot_best", "snapshot_iter_10", "snapshot_iter_15"}));
  const std::string best = folder / "first/snapshot_best";
  const auto time = std::filesystem::last_write_time(best);
  run(2, "first", with({"--resume", folder / "first"}, with(flags, {"5"})));
  EXPECT_EQ(there(), (Flags{"snapshot_best", "snapshot_iter_20", "snapshot_iter_25"}));
  EXPECT_EQ(std::filesystem::last_write_time(best), time) << "a resumed run knows the best value";
  expect_once(run(2, "second", {"-b", "48", "--resume", best, "--dry-run"}),
              "Resumed: " + best + ", epoch 1, iteration 5\n");

  // It is a result like the others.
  run(1, "first", {"-b", "48", "--epoch", "1", "--overwrite"});
  EXPECT_EQ(there(), (Flags{"snapshot_iter_10"}));
  const Finished unknown = run(1, "other", {"-b", "48", "--keep-best", "main/lost"});
  EXPECT_EQ(unknown.exit_code, static_cast<int>(ErrorKind::usage)) << unknown.all();
}

TEST_F(ResumedJob, ARateThatFollowsTheBatchFollowsItAfterAResume) {
  train({"--lr-scaling", "linear", "--lr-reference-batch", "48"});
  const Finished job = run(2, "second", {"-b", "48", "--epoch", "3", "--resume", snapshot});
  expect_once(job, "alpha 0.002 instead of 0.001");
  expect_once(job, "ranks 1, shards 1, global_batch 48, steps_per_epoch 10; this run has ranks 2");
  EXPECT_EQ(count_of(job.all(), "other data"), 0) << job.all();
}

TEST_F(ResumedJob, DryRunChecksTheSnapshotAndTheFolder) {
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

TEST_F(ResumedJob, AFolderStandsForItsNewestWholeSnapshot) {
  train({"--snapshot-every", "1"});
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
    expect_once(job, "; using the snapshot before it\n");
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
  refused(ErrorKind::missing, "--resume " + data + ": there is no snapshot_iter_<number> in this");
}

// Whatever --quiet says; nothing is written.
TEST_F(ResumedJob, WithNothingLeftToDoSaysHowToGoOn) {
  train({});
  for (const Flags& flags : {Flags{"--epoch", "2"}, {"--epoch", "1"}, {"--max-iterations", "20"}}) {
    const Finished job = go_on(with({"--quiet"}, flags));
    expect_once(job, fmt::format("nothing to do: {} is at the end of {} {}; raise {} to continue\n",
                                 snapshot, flags[0], flags[1], flags[0]));
    EXPECT_EQ(job.out, "");
    EXPECT_FALSE(std::filesystem::exists(folder / "second"));
  }
}

TEST_F(ResumedJob, OtherDataAreSaid) {
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

// Of a snapshot, or of its model alone in a file.
TEST_F(ResumedJob, InitStartsFromWeights) {
  train({});
  const double before = values_of(read_log("first"), "validation/main/accuracy").back();
  const Flags still = {"-b", "48", "--epoch", "1", "--optimizer", "sgd", "--lr", "0"};
  const Classifier model(std::make_unique<MLP>(784, 32, 10));
  load_npz(snapshot, model, "updater/model:main/");
  save_npz(folder / "model", model);
  for (const std::string& file : Flags{snapshot, folder / "model"}) {
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
              "warning: --init: 2 of the entries in " + (folder / "more").string() +
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
TEST_F(ResumedJob, AWrongSnapshotIsRefusedBeforeTheDataAreRead) {
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
