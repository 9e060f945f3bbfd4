// Trainings whose groups of ranks exchange their weights every few steps: what is saved goes on
// with the same bits, and groups learn at synchronisations that they should stop.
#include "optimizer/local_steps.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "core/stop_request.hpp"
#include "resumed_run.hpp"
#include "same_run.hpp"
#include "saving/training_file.hpp"
#include "training/extensions/checkpoint.hpp"

namespace tasuki {
namespace {

using testing::expect_same_bits;
using testing::expect_same_run;
using testing::Resume;
using testing::SmallRun;

constexpr LocalStepSettings by_mean{.every = 4};
constexpr LocalStepSettings by_nesterov{
    .every = 3, .warmup = 2, .outer = OuterOptimizer::nesterov, .lr = 0.5, .momentum = 0.8};
constexpr LocalStepSettings while_computing{
    .every = 3, .outer = OuterOptimizer::nesterov, .overlap = true};

SmallRun::Options options_of(const LocalStepSettings& local, bool sharded = false) {
  return {.iterations = 17, .units = 300, .sharded = sharded, .local = local};
}

void expect_same_arrays(const SmallRun& a, const SmallRun& b) {
  expect_same_bits(a.optimizer->arena().values(), b.optimizer->arena().values(), "weights");
  for (const std::string& name : a.optimizer->states().names())
    expect_same_bits(a.optimizer->states().gather(name), b.optimizer->states().gather(name), name);
  EXPECT_EQ(a.optimizer->t(), b.optimizer->t());
  const auto buffers = a.model->buffers(), others = b.model->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    expect_same_bits(*buffers[i].tensor, *others[i].tensor, buffers[i].path);
  if (const Tensor momentum = a.local_steps->momentum_of(*a.optimizer))
    expect_same_bits(momentum, b.local_steps->momentum_of(*b.optimizer), "outer momentum");
}

void expect_same_local_run(const SmallRun& a, const SmallRun& b) {
  expect_same_run(a, b);
  expect_same_arrays(a, b);
}

class LocalRuns : public Resume {
 protected:
  // Saves after `cut` iterations, and goes on, from that state if `resumes`.
  std::unique_ptr<SmallRun> run_saving_at(std::int64_t cut, const SmallRun::Options& options,
                                          const char* out, bool resumes = false) {
    auto run = std::make_unique<SmallRun>(folder / out, comm.get(), options);
    run->trainer->extend(std::make_unique<Checkpoint>(
        Checkpoint::Settings{.n_retains = 9}, at({static_cast<double>(cut)}, Unit::iteration)));
    if (resumes) resume(state_of(cut), *run->trainer);
    run->trainer->run();
    return run;
  }
  std::filesystem::path state_of(std::int64_t cut) const {
    return folder / fmt::format("whole/checkpoints/iter_{}", cut);
  }
};

TEST_F(LocalRuns, ResumeWithTheSameBits) {
  for (const LocalStepSettings& local : {by_mean, by_nesterov, while_computing})
    for (const bool sharded : {false, true})
      // At a synchronisation of by_mean, and between two; the end of an epoch is one, too.
      for (const std::int64_t cut : {4, 11}) {
        SCOPED_TRACE(
            fmt::format("every {} steps, sharded: {}, cut after {}", local.every, sharded, cut));
        const auto whole = run_saving_at(cut, options_of(local, sharded), "whole");
        const auto resumed = run_saving_at(cut, options_of(local, sharded), "second", true);
        expect_same_local_run(*whole, *resumed);
        EXPECT_EQ(whole->local_steps->steps(), resumed->local_steps->steps());
        // Groups have seen other examples, so their states differ.
        const Tensor state = whole->optimizer->states().gather("m").clone();
        const Tensor first = state.clone();
        comm->bcast_data(first);  // all have read the files
        const bool differs = std::memcmp(state.raw(), first.raw(), state.bytes()) != 0;
        EXPECT_EQ(differs, whole->local_steps->own_group() != 0);
        if (comm->rank() == 0) std::filesystem::remove_all(folder / "whole");
      }
}

// Ranks of a socket share weights and divide states; a group of two sockets has them twice.
TEST_F(LocalRuns, ResumeWhereSocketsHaveCopies) {
  auto other = create_communicator("hierarchical");
  std::swap(comm, other);  // the folder is the first one's
  SmallRun::Options options = options_of(by_nesterov);
  options.shares = true;
  options.sockets = 2;
  {
    const auto whole = run_saving_at(11, options, "whole");
    const auto resumed = run_saving_at(11, options, "second", true);
    expect_same_local_run(*whole, *resumed);
  }
  std::swap(comm, other);
}

// Saved states say what is frozen, also if the run that goes on had not been told.
TEST_F(LocalRuns, ResumeFrozenParameters) {
  SmallRun::Options options = options_of(by_nesterov);
  options.frozen = "predictor/l1/*";
  const auto whole = run_saving_at(11, options, "whole");
  options.frozen = "";
  const auto resumed = run_saving_at(11, options, "second", true);
  expect_same_local_run(*whole, *resumed);
}

TEST_F(LocalRuns, ResumeLoopsOfTheirOwn) {
  const auto steps_of = [](SmallRun& run, std::int64_t last) {
    Observation ignored;
    while (run.trainer->updater().iteration() < last) run.trainer->updater().update(ignored);
  };
  SmallRun whole(folder / "whole", comm.get(), options_of(while_computing));
  steps_of(whole, 4);
  save_training(folder / "training.npz", *whole.optimizer, {{"step", 4}}, whole.local_steps.get());
  SmallRun second(folder / "second", comm.get(), options_of(while_computing));
  const ProgramNumbers numbers =
      load_training(folder / "training.npz", *second.optimizer, second.local_steps.get());
  EXPECT_EQ(numbers.at("step"), 4);
  EXPECT_EQ(second.local_steps->steps(), 4);
  expect_same_arrays(whole, second);
}

// Snapshots have the states of all groups as well.
TEST_F(LocalRuns, GoOnFromSnapshots) {
  const auto first = saved_run(options_of(by_nesterov));
  const SmallRun second(folder / "second", comm.get(), options_of(by_nesterov));
  resume(folder / "state", *second.trainer);
  expect_same_arrays(*first, second);
}

// Other numbers of groups take the states of the first one, and no groups do, too.
TEST_F(LocalRuns, GoOnWithOtherGroups) {
  const auto first = saved_run(options_of(by_nesterov));
  const Tensor states = first->optimizer->states().gather("m").clone();
  comm->bcast_data(states);
  for (const bool has_groups : {true, false}) {
    SmallRun::Options options = options_of(by_nesterov);
    options.groups = 1;
    if (!has_groups) options.local.reset();
    SmallRun second(folder / "second", comm.get(), options);
    resume(folder / "state", *second.trainer);
    expect_same_bits(first->optimizer->arena().values(), second.optimizer->arena().values(),
                     "weights");
    expect_same_bits(states, second.optimizer->states().gather("m"), "states");
  }
  // A run that had none begins with a momentum of zeros.
  SmallRun::Options alone = options_of(by_nesterov);
  alone.local.reset();
  saved_run(alone);
  SmallRun third(folder / "second", comm.get(), options_of(by_nesterov));
  resume(folder / "state", *third.trainer);
  EXPECT_EQ(third.local_steps->steps(), third.trainer->updater().iteration());
  EXPECT_GT(third.local_steps->steps(), 10);
  const Tensor momentum = third.local_steps->momentum_of(*third.optimizer);
  for (const float value : momentum.span<float>()) ASSERT_EQ(value, 0);
}

TEST_F(LocalRuns, StopAtASynchronisation) {
  SmallRun::Options options = options_of(by_mean);
  SmallRun whole(folder / "whole", comm.get(), options);
  whole.trainer->run();
  std::int64_t stopped_after = 0;
  {
    SmallRun stopped(folder / "stopped", comm.get(), options);
    stopped.trainer->extend(make_extension("ask", [&](Trainer& trainer) {
      stopped_after = trainer.updater().iteration();
      if (stopped_after == 5 && comm->rank() == comm->size() - 1) kill(getpid(), SIGUSR1);
    }));
    EXPECT_THROW(stopped.trainer->run(), Stopped);
    EXPECT_TRUE(stopped.local_steps->is_synchronised());
    // 4 steps after the last one, or at the end of an epoch, which is one, too.
    const std::int64_t epoch = stopped.trainer->updater().steps_per_epoch();
    EXPECT_EQ(stopped_after, epoch == 5 ? 9 : epoch > 5 && epoch < 8 ? epoch : 8);
  }
  SmallRun resumed(folder / "resumed", comm.get(), options);
  resume(folder / fmt::format("stopped/snapshot_iter_{}", stopped_after), *resumed.trainer);
  resumed.trainer->run();
  expect_same_local_run(whole, resumed);
}

}  // namespace
}  // namespace tasuki
