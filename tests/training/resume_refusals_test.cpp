// A run that differs from the one in the snapshot says so, or refuses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "dataset/iterators/share_iterator.hpp"
#include "parallel/multi_node_batch_norm.hpp"
#include "resumed_run.hpp"
#include "saving/npz.hpp"
#include "saving/saved_states.hpp"
#include "saving/state.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::Resume;
using testing::SmallRun;

TEST_F(Resume, ReportsDifferentGroups) {
  saved_run({.iterations = 3});
  SmallRun run(folder / "second", comm.get(), {});
  run.optimizer->add_group({.pattern = "**/b", .rate_factor = 2});
  ::testing::internal::CaptureStderr();
  resume(folder / "state", *run.trainer);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "parameter groups none; continuing with this run's: **/b, rate x 2";
  EXPECT_EQ(said.find(line) != std::string::npos, comm->rank() == 0) << said;
}

TEST_F(Resume, RejectsLazyShapesUnlikeTheSnapshot) {
  saved_run({.iterations = 1});
  EXPECT_THAT(refusal({.units = 9, .lazy = true}),
              HasSubstr("predictor/l1/W is 8x12 in the file and 9x? in the model"));
}

TEST_F(Resume, RejectsAnotherNumberOfShardsWithinAnEpoch) {
  if (comm->size() == 1) GTEST_SKIP() << "needs two ranks";
  if (comm->rank() == 0) {
    SmallRun run(folder / "first", nullptr, {.iterations = 3});
    run.trainer->run();
    save_snapshot(folder / "state", *run.trainer);
  }
  comm->barrier();
  // One for each rank.
  EXPECT_THAT(
      refusal({}),
      ::testing::AllOf(HasSubstr("from step 3 of an epoch with shards 1, global_batch 7, steps"),
                       HasSubstr(fmt::format("this run has shards {0}, global_batch {1}, steps",
                                             comm->size(), 7 * comm->size()))));
}

TEST_F(Resume, RejectsOtherRunsAndNamesDifferences) {
  saved_run({.iterations = 3});
  EXPECT_THAT(refusal({.seed = 4}), HasSubstr("run had seed 3, this run has seed 4"));
  EXPECT_THAT(refusal({.optimizer = "sgd"}), HasSubstr("run used Adam, this run uses SGD"));
  EXPECT_THAT(refusal({.units = 9}),
              HasSubstr("predictor/l1/W is 8x12 in the file and 9x12 in the model"));
  EXPECT_EQ(refusal({}), "(nothing thrown)");
}

// In a file from elsewhere, whose hash is right.
TEST_F(Resume, RejectsImpossibleNumbers) {
  saved_run({.iterations = 3});
  const NpzFile saved(folder / "state");
  std::vector<NpzEntry> entries;
  for (const std::string& name : saved.names()) entries.push_back({name, saved.read(name)});
  comm->barrier();  // all have read the file that rank 0 replaces now
  const auto refusal_of = [&](const std::string& name, const NpzValue& value) {
    std::vector<NpzEntry> changed = entries;
    const auto entry = std::ranges::find(changed, name, &NpzEntry::name);
    if (entry == changed.end()) return "there is no " + name;
    entry->value = value;
    if (comm->rank() == 0) write_npz(folder / "state", changed);
    comm->barrier();
    return refusal({});
  };
  const auto integer = [](std::int64_t value) {
    return Tensor::from(std::span<const std::int64_t>(&value, 1), Shape{});
  };
  const auto number = [](double value) {
    return Tensor::from(std::span<const double>(&value, 1), Shape{});
  };
  const std::string updater = "updater/", data = "updater/iterator:main/",
                    optimizer = "updater/optimizer:main/";
  for (const std::int64_t wrong : {INT64_MIN, std::int64_t{-1}, INT64_MAX})
    for (const std::string& name :
         {updater + "iteration", data + "epoch", data + "step", optimizer + "t"})
      EXPECT_THAT(refusal_of(name, integer(wrong)), HasSubstr(fmt::format("found {}", wrong)))
          << name;
  EXPECT_THAT(refusal_of(optimizer + "hyperparameters/alpha", number(NAN)),
              HasSubstr("the snapshot's alpha: expected a number, found nan"));
  for (const double wrong : {static_cast<double>(NAN), static_cast<double>(INFINITY), -1.0})
    EXPECT_THAT(refusal_of("_snapshot_elapsed_time", number(wrong)),
                HasSubstr("expected seconds from 0"));
  for (const std::string& log :
       {std::string(40'000, '['), std::string("[[1]]"), std::string("{}")}) {
    const std::vector<std::uint8_t> bytes(log.begin(), log.end());
    EXPECT_THAT(refusal_of("extensions/LogReport/_log",
                           Tensor::from(std::span(bytes), Shape{std::ssize(bytes)})),
                HasSubstr("the snapshot's log"));
  }
  // Almost nothing in a compressed file; refused before it is read.
  const std::int64_t many = (std::int64_t{64} << 20) + 1;
  EXPECT_THAT(refusal_of("extensions/LogReport/_log", Tensor::zeros({many}, DType::uint8)),
              HasSubstr("the snapshot's log: expected at most 67108864 bytes, found 67108865"));
}

TEST_F(Resume, ReportsDifferentHooks) {
  saved_run({.iterations = 3});
  SmallRun run(folder / "second", comm.get(), {});
  run.optimizer->add_hook(weight_decay(0.5));
  ::testing::internal::CaptureStderr();
  resume(folder / "state", *run.trainer);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "gradient hooks none; continuing with this run's: WeightDecay(0.5)";
  EXPECT_EQ(said.find(line) != std::string::npos, comm->rank() == 0) << said;
}

TEST_F(Resume, ChecksSnapshotsWithoutATrainer) {
  saved_run({.iterations = 3});
  SmallRun run(folder / "second", comm.get(), {});
  const auto data =
      create_shuffled_iterator(testing::share_of(testing::synthetic(97), comm.get()), 7, 3);
  RunDescription described{{3, comm->size()}, data->layout(), data->steps_per_epoch()};
  const auto error = [&] {
    return error_of([&] {
      check_resumable(open_to_resume(folder / "state", comm.get()), described,
                      {{"main", run.optimizer.get()}}, comm.get());
    });
  };
  EXPECT_EQ(check_resumable(open_to_resume(folder / "state", comm.get()), described,
                            {{"main", run.optimizer.get()}}, comm.get())
                .iteration,
            3);
  described.layout->global_batch += 1;
  EXPECT_THAT(error(), HasSubstr("from step 3 of an epoch with global_batch"));
  // Whose order may depend on the ranks.
  described.layout = EpochLayout{.examples = 97, .global_batch = 7 * comm->size()};
  described.identity.ranks += 1;
  EXPECT_THAT(error(), HasSubstr(fmt::format("ranks {}: resume with", comm->size() + 1)));
  described.identity.ranks -= 1;
  described.layout.reset();
  EXPECT_EQ(check_resumable(open_to_resume(folder / "state", comm.get()), described,
                            {{"main", run.optimizer.get()}}, comm.get())
                .data.step,
            3);
  described.identity.seed = 4;
  EXPECT_THAT(error(), HasSubstr("seed 3"));
}

TEST_F(Resume, RejectsOtherAccumulationWithinAnEpoch) {
  saved_run({.iterations = 1, .accumulate = 2});
  EXPECT_EQ(refusal({.accumulate = 2}), "(nothing thrown)");
  EXPECT_THAT(refusal({}), HasSubstr("from step 2 of an epoch with batches_per_iteration 2; this "
                                     "run has batches_per_iteration 1: resume with"));
  saved_run({.epochs = 1, .accumulate = 2});
  EXPECT_EQ(refusal({}), "(nothing thrown)");
}

TEST_F(Resume, ReportsDifferentExchangesAndStatistics) {
  if (comm->size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  using Change = std::function<void(SmallRun&)>;
  // A run that `saving` has changed takes a snapshot; a run that `loading` has changed resumes it.
  const auto said = [&](const Change& saving, const Change& loading) {
    SmallRun first(folder / "first", comm.get(), {.iterations = 2});
    saving(first);
    first.trainer->run();
    save_snapshot(folder / "state", *first.trainer);
    SmallRun second(folder / "second", comm.get(), {});
    loading(second);
    ::testing::internal::CaptureStderr();
    resume(folder / "state", *second.trainer);
    return ::testing::internal::GetCapturedStderr();
  };
  const auto expect = [&](const std::string& text, const std::vector<std::string>& lines) {
    EXPECT_EQ(std::ranges::count(text, '\n'), comm->rank() == 0 ? std::ssize(lines) : 0) << text;
    for (const std::string& line : lines)
      EXPECT_EQ(text.find(line) != std::string::npos, comm->rank() == 0) << text;
  };
  const auto exchanging = [](const ExchangeSettings& settings) -> Change {
    return [settings](SmallRun& run) { run.optimizer->set_exchange(settings); };
  };
  const Change nothing = [](SmallRun&) {};
  const Change synchronised = [&](SmallRun& run) {
    convert_to_multi_node_batch_norm(*run.model, *comm);
  };
  const Change compressed = exchanging({.power_sgd_rank = 2});
  expect(
      said(exchanging({.mode = ExchangeMode::double_buffered}), nothing),
      {"had gradients exchanged double-buffered; continuing with this run's: in their own step"});
  expect(said(nothing, compressed),
         {"had gradients exchanged in their own step; continuing with this run's: in their own "
          "step, by PowerSGD of rank 2",
          "the snapshot does not have what compressing"});
  expect(said(compressed, nothing),
         {"continuing with this run's: in their own step\n",
          "this run neither compresses gradients nor keeps what rounding takes; continuing "
          "without it"});
  expect(said(synchronised, nothing),
         {"had batch normalisation by statistics of all ranks; continuing with this run's: each "
          "rank's own batch"});
  expect(said(compressed, compressed), {});
  expect(said(synchronised, synchronised), {});
  // Forms that give the same gradients.
  expect(said(exchanging({.mode = ExchangeMode::thread}), nothing), {});
}

// Whatever deals an epoch's examples differently, be it into as many steps as before.
TEST_F(Resume, RejectsOtherExampleOrderWithinAnEpoch) {
  const std::int64_t n = comm->size();
  const SmallRun::Options before{.examples = 12 * n, .batch = 4, .iterations = 1};
  const auto with = [&](std::int64_t examples, std::int64_t batch, int shards) {
    return SmallRun::Options{.examples = examples, .batch = batch, .shards = shards};
  };
  const int ranks = comm->size();
  saved_run(before);
  EXPECT_EQ(refusal(with(12 * n, 4, ranks)), "(nothing thrown)");
  EXPECT_THAT(refusal(with(12 * n, 5, ranks)),
              HasSubstr(fmt::format("from step 1 of an epoch with global_batch {}; this run has "
                                    "global_batch {}: ",
                                    4 * n, 5 * n)));
  EXPECT_THAT(refusal(with(12 * n - 1, 4, ranks)),
              HasSubstr(fmt::format("an epoch with examples {}; this run has examples {}: ", 12 * n,
                                    12 * n - 1)));
  EXPECT_THAT(refusal(with(12 * n, 4, 2 * ranks)),
              HasSubstr(fmt::format("with shards {}; this run has shards {}: ", n, 2 * n)));
  EXPECT_THAT(
      refusal(with(12 * n, 3, ranks)),
      HasSubstr(fmt::format("an epoch with global_batch {}, steps_per_epoch 3; this run has "
                            "global_batch {}, steps_per_epoch 4: ",
                            4 * n, 3 * n)));

  // From the end of an epoch all of it may change.
  saved_run({.examples = 12 * n, .batch = 4, .epochs = 1});
  EXPECT_EQ(refusal(with(12 * n - 1, 6, 2 * ranks)), "(nothing thrown)");
}

}  // namespace
}  // namespace tasuki
