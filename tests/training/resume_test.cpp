// A run that is resumed is the run that was not interrupted, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "resumed_run.hpp"
#include "same_run.hpp"
#include "saving/npz.hpp"
#include "tests/support/json.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::expect_same_bits;
using testing::expect_same_run;
using testing::Resume;
using testing::SmallRun;

// Both runs end the exchange of the step in which the snapshot is saved.
TEST_F(Resume, MatchesTheUninterruptedRunThatAlsoSaved) {
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

TEST_F(Resume, MatchesTheUninterruptedRun) {
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
TEST_F(Resume, MatchesTheUninterruptedRunForShardedStates) {
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
      for (const std::string& name : first->optimizer->states().names())
        expect_same_bits(first->optimizer->states().gather(name),
                         resumed.optimizer->states().gather(name), name);
      resumed.trainer->run();
      expect_same_run(whole, resumed);
    }
}

// Files hold all states, whatever the number of ranks that wrote them.
TEST_F(Resume, LoadsShardedStatesInOneProcess) {
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
  for (const std::string& name : one.optimizer->states().names())
    expect_same_bits(many.optimizer->states().gather(name), one.optimizer->states().gather(name),
                     name);
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

TEST_F(Resume, MatchesTheUninterruptedRunForFrozenParameters) {
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

TEST_F(Resume, LoadsItsOwnSnapshot) {
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

// Layers that learn their shape from the first batch train as those that were told it, also where
// ranks have no example of it (2 on up to 4 ranks).
TEST_F(Resume, SupportsLazyShapes) {
  for (const std::int64_t examples : {std::int64_t{97}, std::int64_t{2}}) {
    SCOPED_TRACE(fmt::format("{} examples", examples));
    SmallRun told(folder / "told", comm.get(), {.examples = examples});
    SmallRun lazy(folder / "lazy", comm.get(), {.examples = examples, .lazy = true});
    told.trainer->run();
    lazy.trainer->run();
    expect_same_run(told, lazy);
  }
}

TEST_F(Resume, TakesLazyShapesFromTheSnapshot) {
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

TEST_F(Resume, KeepsAndExtendsFinishedRuns) {
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

// Rank 0 trains alone; then all ranks continue, and the other way round.
TEST_F(Resume, AllowsOtherRanksAtAnEpochsEnd) {
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

}  // namespace
}  // namespace tasuki
