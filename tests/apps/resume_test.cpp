// train_mnist --resume: which settings are the snapshot's and which are those of flags, and that
// the run goes on as if it had not been interrupted.

#include <cmath>

#include "core/error.hpp"
#include "resumed_job.hpp"
#include "saving/npz.hpp"
#include "tests/support/json.hpp"

namespace tasuki::testing {
namespace {

TEST_F(ResumedJob, FlagsOverrideTheSnapshot) {
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

TEST_F(ResumedJob, AdamFlagsOverrideTheSnapshot) {
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
TEST_F(ResumedJob, ReportsAdamSnapshotWithWeightDecay) {
  for (const bool has_flags : {true, false}) {
    SCOPED_TRACE(has_flags);
    train({"--weight-decay", "0.25"});
    std::vector<NpzEntry> entries;
    {
      const NpzFile file(snapshot);
      for (const std::string& name : file.names()) {
        if (!has_flags && name.starts_with("extensions/Flags/")) continue;
        if (name.starts_with("extensions/Flags/asked/")) continue;  // newer
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

TEST_F(ResumedJob, TakesMissingFlagsFromTheSnapshot) {
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
TEST_F(ResumedJob, TakesNumbersFromASnapshotWithoutFlags) {
  train({"--optimizer", "momentum_sgd", "--lr", "0.05", "--momentum", "0.5", "--warmup", "1"});
  take_flags_away();
  const Finished job = go_on({"--momentum", "0.75"});
  expect_once(job, "the snapshot's: momentum 0.75 instead of 0.5\n");
  expect_once(job, "Optimizer: MomentumSGD, lr 0.05, momentum 0.75\n");
}

TEST_F(ResumedJob, DoesNotScaleTheRateTwice) {
  const Flags scaling = {"--lr-scaling", "linear", "--lr-reference-batch", "24"};
  train(with({"--optimizer", "sgd", "--lr", "0.05"}, scaling));  // the batch is 48
  take_flags_away();
  const Finished same = go_on({});
  expect_once(same, "Optimizer: SGD, lr 0.1\n");
  EXPECT_EQ(count_of(same.all(), "instead of"), 0) << same.all();
  expect_once(go_on(with({"--lr", "0.05"}, scaling)),
              "Optimizer: SGD, lr 0.1 = 0.05 x 2 (linear scaling: global batch 48, recipe 24)\n");
}

TEST_F(ResumedJob, ReportsRemovedWeightDecay) {
  train({"--optimizer", "sgd", "--weight-decay", "0.05"});
  expect_once(go_on({"--weight-decay", "0"}), "gradient hooks WeightDecay(0.05); continuing with");
}

TEST_F(ResumedJob, RejectsAnotherOptimizer) {
  train({"--optimizer", "momentum_sgd", "--momentum", "0.5"});
  for (const std::string dry : {"false", "true"}) {
    const Finished job = go_on({"--optimizer", "sgd", "--dry-run=" + dry});
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
    EXPECT_EQ(count_of(job.all(), "run used MomentumSGD, this run uses SGD"), 1) << job.all();
  }
}

TEST_F(ResumedJob, RejectsImpossibleSummaryInOneLine) {
  train({});
  std::vector<NpzEntry> entries;
  for (const NpzFile file(snapshot); const std::string& name : file.names())
    entries.push_back({name, file.read(name)});
  const auto part = std::ranges::find(entries, "extensions/RunSummary/part", &NpzEntry::name);
  ASSERT_NE(part, entries.end());
  const std::pair<const char*, const char*> cases[] = {
      {R"({"steps":-2,"seconds":1,"epochs":[],"accuracies":[]})", "steps or epochs, found -2\n"},
      {R"({"steps":2,"seconds":null,"epochs":[],"accuracies":[]})", "seconds from 0, found null\n"},
      {R"({"steps":2,"seconds":1,"epochs":[-1.5],"accuracies":[]})", "from 0, found -1.5\n"},
      {R"({"steps":2,"seconds":1,"epochs":[],"accuracies":[[null,"x"]]})", "found \"x\"\n"},
      {R"({"steps":2)", "the summary in the snapshot"}};
  for (const auto& [text, said] : cases) {
    part->value = std::string(text);
    write_npz(snapshot, entries);
    const Finished job = run(2, "second", {"-b", "24", "--epoch", "4", "--resume", snapshot});
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
    EXPECT_EQ(count_of(job.err, said), 1) << job.err;
    EXPECT_EQ(count_of(job.err, "error:"), 1) << job.err;
  }
}

// As if it had been there from the start.
TEST_F(ResumedJob, StartsNewSchedulesFromTheRunsBeginning) {
  const Flags sgd = {"--optimizer", "sgd", "--lr", "0.1"};
  train(sgd);
  for (const Flags& schedule : {Flags{"--warmup", "4"}, Flags{"--lr-schedule", "steps"}}) {
    SCOPED_TRACE(schedule[0]);
    const auto whole = log_of(1, "whole", with(with({"-b", "48", "--epoch", "4"}, sgd), schedule));
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

// Where large arrays have each 16th value alone.
void expect_arrays(const std::filesystem::path& snapshot, const nlohmann::json& expected) {
  const NpzFile found(snapshot);
  for (const auto& [name, array] : expected.items()) {
    const auto tensor = std::get<Tensor>(found.read(name));
    const auto numbers = tensor.span<float>();
    const auto values = array.get<std::vector<float>>();
    const std::size_t stride = numbers.size() > 100 ? 16 : 1;
    ASSERT_EQ((numbers.size() + stride - 1) / stride, values.size()) << name;
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(numbers[i * stride], values[i], 1e-4 * largest) << name << " " << i;
  }
}

// Made by make_old_snapshot.py with a version that knew no groups, frozen parameters or named
// fields.
TEST_F(ResumedJob, ContinuesOldSnapshotsLikeTheOldVersion) {
  const Finished job = run(1, "second",
                           {"-b", "48", "--unit", "2", "--epoch", "2", "--resume", OLD_SNAPSHOT,
                            "--out", folder / "second"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  const auto expected = json_in(OLD_CONTINUATION);
  ASSERT_EQ(expected.size(), 12U);  // weights and biases of three layers, and their states
  expect_arrays(folder / "second/snapshot_iter_20", expected);
}

// Made by make_old_run.py in the format of version 0.1, in the middle of an epoch.
TEST_F(ResumedJob, SavedStatesOfAnOldVersionContinueAsThatVersionDid) {
  const std::string old_run = OLD_RUN;
  const auto expected = json_in(old_run + "/continued.json");
  ASSERT_EQ(expected.at("arrays").size(), 18U);  // with two states of each
  for (const char* saved : {"/checkpoints/iter_15", "/snapshot_iter_15"}) {
    std::filesystem::remove_all(folder / "second");
    const Finished job = run(2, "second",
                             {"--unit", "2", "--shards", "2", "--global-batch", "48",
                              "--shard-optimizer", "--resume", old_run + saved});
    expect_once(job, "Resumed: " + old_run + saved + ", epoch 1, iteration 15\n");
    EXPECT_EQ(count_of(job.all(), "warning"), 0) << job.all();
    expect_near(values_of(read_log("second"), "main/loss"), expected.at("losses"), 1e-5);
    expect_arrays(folder / "second/snapshot_iter_20", expected.at("arrays"));
  }
}

// In the middle of the run; the flags are the snapshot's.
TEST_F(ResumedJob, ResumesSchedulesAndHooksBitForBit) {
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
TEST_F(ResumedJob, ResumesErrorFeedbackBitForBit) {
  const std::vector<Flags> cases = {
      {"--communicator", "naive", "--wire-dtype", "bf16", "--error-feedback"},
      {"--communicator", "naive", "--wire-dtype", "bf16", "--error-feedback", "--dtype", "bf16"},
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
TEST_F(ResumedJob, KeepsScheduleEpochsWithOtherBatches) {
  const std::vector<Flags> cases = {{"--lr-schedule", "cosine"},
                                    {"--lr-schedule", "polynomial", "--lr-power", "2"},
                                    {"--lr-schedule", "steps", "--lr-drops", "1,2.5,3.5"},
                                    {"--warmup", "4"}};
  const Flags sgd = {"--epoch", "4", "--optimizer", "sgd", "--lr", "0.1"};
  for (const Flags& schedule : cases) {
    SCOPED_TRACE(schedule.back());
    const Flags flags = with(sgd, schedule);
    const auto one = log_of(1, "first", with({"-b", "48", "--snapshot-every", "2"}, flags));
    const auto two = log_of(2, "whole", with({"-b", "48"}, flags));
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

TEST_F(ResumedJob, TakesTheRunLengthFromTheSnapshot) {
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

// At a rate of 0 the loss of a step says which examples it takes.
TEST_F(ResumedJob, KeepsExampleOrderWithinAnEpochOnOtherRanks) {
  const Flags flags = {"--global-batch", "48",  "--shards",    "2", "--epoch", "2",
                       "--optimizer",    "sgd", "--log-every", "1", "--lr",    "0"};
  const auto whole = values_of(log_of(1, "whole", flags), "main/loss");
  ASSERT_EQ(whole.size(), 20U);
  EXPECT_GT(std::abs(whole[14] - whole[15]), 1e-4 * whole[14]);
  for (const auto& [before, after] : {std::pair(1, 2), std::pair(2, 1)}) {
    std::filesystem::remove_all(folder / "parts");
    log_of(before, "parts", with(flags, {"--max-iterations", "13"}));
    const auto parts = log_of(after, "parts", with(flags, {"--resume", folder / "parts"}));
    expect_near(values_of(parts, "main/loss"), whole, 1e-6);
  }
  // Another number of shards deals the examples otherwise.
  log_of(1, "parts", with(flags, {"--max-iterations", "13"}));
  const Finished refused =
      run(2, "parts", with(flags, {"--resume", folder / "parts", "--shards", "4"}));
  EXPECT_EQ(refused.exit_code, static_cast<int>(ErrorKind::config)) << refused.all();
  EXPECT_EQ(count_of(refused.err, "an epoch with shards 2; this run has shards 4: "), 1)
      << refused.all();
}

TEST_F(ResumedJob, RescalesTheRateForANewBatch) {
  train({"--lr-scaling", "linear", "--lr-reference-batch", "48"});
  const Finished job = run(2, "second", {"-b", "48", "--epoch", "3", "--resume", snapshot});
  expect_once(job, "alpha 0.002 instead of 0.001");
  expect_once(job, "shards 1, global_batch 48, steps_per_epoch 10; this run has shards 2");
  EXPECT_EQ(count_of(job.all(), "other data"), 0) << job.all();
}

}  // namespace
}  // namespace tasuki::testing
