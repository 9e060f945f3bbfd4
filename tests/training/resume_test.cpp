// A run that is resumed is the run that was not interrupted, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "errors.hpp"
#include "same_run.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/parallel/multi_node_batch_norm.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using testing::expect_same_bits;
using testing::expect_same_run;
using ::testing::HasSubstr;
using testing::SmallRun;
using testing::TemporaryFolder;

class Resume : public ::testing::Test {
 protected:
  // A run of `options` that saves its state at the end, as rank 0's file "state".
  std::unique_ptr<SmallRun> saved_run(const SmallRun::Options& options) {
    auto run = std::make_unique<SmallRun>(folder / "first", comm.get(), options);
    run->trainer->run();
    save_snapshot(folder / "state", *run->trainer);
    return run;
  }
  std::string refusal(const SmallRun::Options& options) {
    SmallRun run(folder / "second", comm.get(), options);
    std::string message = error_of([&] { resume(folder / "state", *run.trainer); });
    const auto all = comm->allgather_bytes(text_to_bytes(message));
    for (const Bytes& each : all) EXPECT_EQ(each, all[0]);
    return message;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

// Both runs end the exchange of the step in which the snapshot is saved.
TEST_F(Resume, EqualsTheUninterruptedRunThatHasSavedThereToo) {
  const SmallRun::Options options{.exchange = ExchangeMode::double_buffered};
  for (const std::int64_t cut : {std::int64_t{2}, std::int64_t{9}}) {
    const auto run_from = [&](const char* snapshot) {
      auto run = std::make_unique<SmallRun>(folder / "run", comm.get(), options);
      run->trainer->extend(make_extension("Saving", [&](Trainer& trainer) {
        if (trainer.updater().iteration() == cut) save_snapshot(folder / "ignored", trainer);
      }));
      if (snapshot != nullptr) resume(folder / snapshot, *run->trainer);
      run->trainer->run();
      return run;
    };
    const auto whole = run_from(nullptr);
    SmallRun::Options until_cut = options;
    until_cut.iterations = cut;
    saved_run(until_cut);
    expect_same_run(*whole, *run_from("state"));
  }
}

TEST_F(Resume, EqualsTheUninterruptedRun) {
  for (const char* optimizer : {"adam", "momentum_sgd", "rmsprop"}) {
    SmallRun whole(folder / "whole", comm.get(), {.optimizer = optimizer});
    whole.trainer->run();
    const std::int64_t steps = whole.trainer->updater().steps_per_epoch();
    // In the middle of an epoch, at its end, after a step of the next.
    for (const std::int64_t cut : {std::int64_t{2}, steps, 2 * steps + 1}) {
      SCOPED_TRACE(fmt::format("{} cut after {} of {} steps an epoch", optimizer, cut, steps));
      saved_run({.optimizer = optimizer, .iterations = cut});
      SmallRun resumed(folder / "second", comm.get(), {.optimizer = optimizer});
      resume(folder / "state", *resumed.trainer);
      EXPECT_EQ(resumed.trainer->updater().iteration(), cut);
      EXPECT_GT(resumed.trainer->elapsed_time(), 0);
      resumed.trainer->run();
      expect_same_run(whole, resumed);
    }
  }
}

// The states of a model of several blocks (norm_block), saved and loaded with and without sharing.
TEST_F(Resume, OfStatesThatRanksShareEqualsTheUninterruptedRun) {
  const auto options = [](bool sharded, std::optional<std::int64_t> iterations = {}) {
    return SmallRun::Options{
        .epochs = 2, .iterations = iterations, .units = 700, .sharded = sharded};
  };
  SmallRun whole(folder / "whole", comm.get(), options(false));
  whole.trainer->run();
  for (const bool when_saved : {false, true})
    for (const bool when_loaded : {false, true}) {
      SCOPED_TRACE(fmt::format("shared when saved: {}, when loaded: {}", when_saved, when_loaded));
      const auto first = saved_run(options(when_saved, 3));
      SmallRun resumed(folder / "second", comm.get(), options(when_loaded));
      resume(folder / "state", *resumed.trainer);
      for (const std::string& name : first->optimizer->state_names())
        expect_same_bits(first->optimizer->gather_state(name),
                         resumed.optimizer->gather_state(name), name);
      resumed.trainer->run();
      expect_same_run(whole, resumed);
    }
}

// Files hold all states, whatever the number of ranks that wrote them.
TEST_F(Resume, StatesThatRanksShareAreLoadedByOneProcess) {
  const SmallRun::Options options{.iterations = 3, .units = 700, .sharded = true};
  SmallRun many(folder / "first", comm.get(), options);
  many.trainer->run();
  std::vector<NpzEntry> entries;
  serialize_optimizer(Serializer::saver(entries, comm.get()), *many.optimizer);
  if (comm->rank() == 0) write_npz(folder / "states", entries);
  comm->barrier();

  SmallRun one(folder / fmt::format("alone-{}", comm->rank()), nullptr, options);
  const NpzFile file(folder / "states");
  serialize_optimizer(Serializer::loader(&file, nullptr), *one.optimizer);
  for (const std::string& name : one.optimizer->state_names())
    expect_same_bits(many.optimizer->gather_state(name), one.optimizer->gather_state(name), name);
}

// Frozen after step `from` (0: before the setup), unfrozen after the 12th.
std::unique_ptr<SmallRun> freezing_run(const std::filesystem::path& out, Communicator* comm,
                                       SmallRun::Options options, std::int64_t from) {
  if (from == 0) options.frozen = "predictor/l1/*";
  auto run = std::make_unique<SmallRun>(out, comm, options);
  run->trainer->extend(make_extension("freeze",
                                      [&optimizer = *run->optimizer, from](Trainer& trainer) {
                                        const std::int64_t iteration =
                                            trainer.updater().iteration();
                                        if (iteration == from) optimizer.freeze("predictor/l1/*");
                                        if (iteration == 12) optimizer.unfreeze("**");
                                      }),
                       {.trigger = every(1, Unit::iteration)});
  return run;
}

TEST_F(Resume, OfFrozenParametersEqualsTheUninterruptedRun) {
  const auto never = std::make_unique<SmallRun>(folder / "never", comm.get(),
                                                SmallRun::Options{.epochs = 5, .iterations = 16});
  never->trainer->run();
  for (const std::int64_t from : {0, 5}) {
    const auto run = [&](const char* out, std::int64_t iterations) {
      return freezing_run(folder / out, comm.get(), {.epochs = 5, .iterations = iterations}, from);
    };
    const auto whole = run("whole", 16);
    whole->trainer->run();
    EXPECT_NE(std::memcmp(whole->optimizer->arena().values().raw(),
                          never->optimizer->arena().values().raw(),
                          whole->optimizer->arena().values().bytes()),
              0);
    // Before, at the moment, in between, at the moment, afterwards.
    for (const std::int64_t cut : {3, 5, 8, 12, 14}) {
      SCOPED_TRACE(fmt::format("frozen after {}, saved after {}", from, cut));
      {
        const auto first = run("first", cut);
        first->trainer->run();
        save_snapshot(folder / "state", *first->trainer);
      }
      const auto resumed = run("second", 16);
      resume(folder / "state", *resumed->trainer);
      resumed->trainer->run();
      expect_same_run(*whole, *resumed);
    }
  }
}

TEST_F(Resume, OtherGroupsAreSaid) {
  saved_run({.iterations = 3});
  SmallRun run(folder / "second", comm.get(), {});
  run.optimizer->add_group({.pattern = "**/b", .rate_factor = 2});
  ::testing::internal::CaptureStderr();
  resume(folder / "state", *run.trainer);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "parameter groups none; continuing with this run's: **/b, rate x 2";
  EXPECT_EQ(said.find(line) != std::string::npos, comm->rank() == 0) << said;
}

TEST_F(Resume, FromASnapshotThatTheRunItselfTook) {
  SmallRun whole(folder / "whole", comm.get(), {});
  whole.trainer->run();
  {
    SmallRun run(folder / "first", comm.get(), {});
    run.trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.n_retains = 2}),
                        {.trigger = every(3, Unit::iteration)});
    run.trainer->run();
    expect_same_run(whole, run);  // saving changes nothing
  }
  comm->barrier();
  const auto newest = newest_snapshot(folder / "first");
  ASSERT_TRUE(newest);
  const auto last = whole.trainer->updater().iteration() / 3 * 3;
  EXPECT_EQ(newest->filename(), fmt::format("snapshot_iter_{}", last));
  for (const std::int64_t kept : {last, last - 3, last - 6})
    EXPECT_EQ(exists(folder / fmt::format("first/snapshot_iter_{}", kept)), kept > last - 6);
  SmallRun resumed(folder / "second", comm.get(), {});
  resume(folder / fmt::format("first/snapshot_iter_{}", last - 3), *resumed.trainer);
  resumed.trainer->run();
  expect_same_run(whole, resumed);
}

// A run resumed from an earlier snapshot finds later ones: only its own count, and those stay.
TEST_F(Resume, ANewSnapshotMakesRoomAmongEarlierOnesOnly) {
  const std::filesystem::path later = folder / "first/snapshot_iter_1000";
  if (comm->rank() == 0) {
    std::filesystem::create_directories(folder / "first");
    std::ofstream(later) << "of another course of this run";
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
TEST_F(Resume, ASnapshotThatFailedIsTriedAgainAtTheEndUnlessItStandsForItsMoment) {
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

// Layers that learn their shape from the first batch train as those that were told it, also where
// ranks have no example of it (2 on up to 4 ranks).
TEST_F(Resume, LazyShapesChangeNothing) {
  for (const std::int64_t examples : {std::int64_t{97}, std::int64_t{2}}) {
    SCOPED_TRACE(fmt::format("{} examples", examples));
    SmallRun told(folder / "told", comm.get(), {.examples = examples});
    SmallRun lazy(folder / "lazy", comm.get(), {.examples = examples, .lazy = true});
    told.trainer->run();
    lazy.trainer->run();
    expect_same_run(told, lazy);
  }
}

TEST_F(Resume, LazyShapesComeFromTheSnapshot) {
  SmallRun whole(folder / "whole", comm.get(), {.lazy = true});
  save_snapshot(folder / "unshaped", *whole.trainer);
  whole.trainer->run();
  for (const std::int64_t cut : {1, 5}) {
    saved_run({.iterations = cut, .lazy = true});
    SmallRun resumed(folder / "second", comm.get(), {.lazy = true});
    resume(folder / "state", *resumed.trainer);
    EXPECT_TRUE(resumed.model->unshaped_parameters().empty());
    resumed.trainer->run();
    expect_same_run(whole, resumed);
  }
  SmallRun from_the_start(folder / "second", comm.get(), {.lazy = true});
  resume(folder / "unshaped", *from_the_start.trainer);
  EXPECT_EQ(from_the_start.model->unshaped_parameters().size(), 2u);
  from_the_start.trainer->run();
  expect_same_run(whole, from_the_start);
}

TEST_F(Resume, LazyShapesThatDoNotFitTheSnapshotAreRefused) {
  saved_run({.iterations = 1});
  EXPECT_THAT(refusal({.units = 9, .lazy = true}),
              HasSubstr("predictor/l1/W is 8x12 in the file and 9x? in the model"));
}

TEST_F(Resume, AFinishedRunStaysFinishedAndCanBeProlonged) {
  saved_run({.epochs = 2});
  SmallRun again(folder / "second", comm.get(), {.epochs = 2});
  resume(folder / "state", *again.trainer);
  again.trainer->run();
  EXPECT_EQ(again.trainer->updater().epoch(), 2);
  SmallRun longer(folder / "third", comm.get(), {.epochs = 3}),
      whole(folder / "whole", comm.get(), {});
  resume(folder / "state", *longer.trainer);
  longer.trainer->run();
  whole.trainer->run();
  expect_same_run(whole, longer);
}

TEST_F(Resume, KeysAreChainersForWhatThereIs) {
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

// Rank 0 trains alone; then all ranks continue, and the other way round.
TEST_F(Resume, AnotherNumberOfRanksGoesOnFromTheEndOfAnEpoch) {
  const auto alone = comm->split(comm->rank() == 0 ? 0 : 1, comm->rank());
  SmallRun::Options options{.optimizer = "momentum_sgd", .epochs = 1};
  std::vector<Tensor> before(1);
  if (comm->rank() == 0) {
    SmallRun run(folder / "first", nullptr, options);
    run.trainer->run();
    save_snapshot(folder / "state", *run.trainer);
    before[0] = run.optimizer->arena().values().clone();
  }
  before[0] = comm->bcast(before[0]);
  options.epochs = 2;
  SmallRun all(folder / "second", comm.get(), options);
  resume(folder / "state", *all.trainer);
  expect_same_bits(all.optimizer->arena().values(), before[0], "parameters");
  EXPECT_EQ(all.trainer->updater().state(), (IteratorState{1, 0}));
  all.trainer->run();
  EXPECT_EQ(all.trainer->updater().epoch(), 2);
  ASSERT_EQ(all.log->entries().size(), 2U);
  EXPECT_EQ(all.log->entries()[1]["epoch"], 2);

  save_snapshot(folder / "state", *all.trainer);
  if (comm->rank() == 0) {
    options.epochs = 3;
    SmallRun run(folder / "third", nullptr, options);
    resume(folder / "state", *run.trainer);
    run.trainer->run();
    EXPECT_EQ(run.trainer->updater().epoch(), 3);
    EXPECT_EQ(run.log->entries().size(), 3U);
  }
}

TEST_F(Resume, AnotherNumberOfRanksIsRefusedInTheMiddleOfAnEpoch) {
  if (comm->size() == 1) GTEST_SKIP() << "needs two ranks";
  if (comm->rank() == 0) {
    SmallRun run(folder / "first", nullptr, {.iterations = 3});
    run.trainer->run();
    save_snapshot(folder / "state", *run.trainer);
  }
  comm->barrier();
  EXPECT_THAT(
      refusal({}),
      ::testing::AllOf(
          HasSubstr("from step 3 of an epoch with ranks 1, shards 1, global_batch 7, steps"),
          HasSubstr(fmt::format("this run has ranks {0}, shards {0}, global_batch {1}, steps",
                                comm->size(), 7 * comm->size()))));
}

TEST_F(Resume, OtherRunsAreRefusedWithWhatDiffers) {
  saved_run({.iterations = 3});
  EXPECT_THAT(refusal({.seed = 4}), HasSubstr("run had seed 3, this run has seed 4"));
  EXPECT_THAT(refusal({.optimizer = "sgd"}), HasSubstr("run used Adam, this run uses SGD"));
  EXPECT_THAT(refusal({.units = 9}),
              HasSubstr("predictor/l1/W is 8x12 in the file and 9x12 in the model"));
  EXPECT_EQ(refusal({}), "(nothing thrown)");
}

TEST_F(Resume, OtherHooksAreSaid) {
  saved_run({.iterations = 3});
  SmallRun run(folder / "second", comm.get(), {});
  run.optimizer->add_hook(weight_decay(0.5));
  ::testing::internal::CaptureStderr();
  resume(folder / "state", *run.trainer);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "gradient hooks none; continuing with this run's: WeightDecay(0.5)";
  EXPECT_EQ(said.find(line) != std::string::npos, comm->rank() == 0) << said;
}

TEST_F(Resume, ASnapshotIsCheckedWithoutATrainer) {
  saved_run({.iterations = 3});
  SmallRun run(folder / "second", comm.get(), {});
  const auto data =
      create_shuffled_iterator(testing::share_of(testing::synthetic(97), comm.get()), 7, 3);
  RunOutline outline{{3, comm->size()}, data->layout(), data->steps_per_epoch()};
  const auto error = [&] {
    return error_of([&] { check_snapshot(folder / "state", outline, *run.optimizer, comm.get()); });
  };
  EXPECT_EQ(check_snapshot(folder / "state", outline, *run.optimizer, comm.get()).iteration, 3);
  outline.layout->global_batch += 1;
  EXPECT_THAT(error(), HasSubstr("from step 3 of an epoch with global_batch"));
  outline.layout.reset();
  EXPECT_EQ(check_snapshot(folder / "state", outline, *run.optimizer, comm.get()).data.step, 3);
  outline.identity.seed = 4;
  EXPECT_THAT(error(), HasSubstr("seed 3"));
}

TEST_F(Resume, OtherBatchesOfAnIterationAreRefusedInTheMiddle) {
  saved_run({.iterations = 1, .accumulate = 2});
  EXPECT_EQ(refusal({.accumulate = 2}), "(nothing thrown)");
  EXPECT_THAT(refusal({}), HasSubstr("from step 2 of an epoch with batches_per_iteration 2; this "
                                     "run has batches_per_iteration 1: resume with"));
  saved_run({.epochs = 1, .accumulate = 2});
  EXPECT_EQ(refusal({}), "(nothing thrown)");
}

TEST_F(Resume, OtherExchangesAndStatisticsAreSaid) {
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
TEST_F(Resume, EpochsOfOtherExamplesAreRefusedInTheMiddle) {
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

TEST_F(Resume, DamagedFilesAreRefused) {
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

TEST_F(Resume, AFullDiskKeepsTheOlderSnapshot) {
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

TEST_F(Resume, TrainingGoesOnWhileSnapshotsCannotBeWritten) {
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
