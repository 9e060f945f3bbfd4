// A model that is not finite, or that differs between ranks, is in no checkpoint and no snapshot,
// whatever makes one due in the iteration in which that happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>

#include "communicator/registry.hpp"
#include "core/stop_request.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/check_replicas.hpp"
#include "training/extensions/checkpoint.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki {
namespace {

using testing::SmallRun;

constexpr std::int64_t damaged_after = 5;

struct Damage {
  const char* name;
  ErrorKind kind;
  bool takes_several_ranks;
  bool is_on_one_rank;
  std::function<void(const SmallRun&)> happen;
  std::int64_t power_sgd_rank = 0;
};

void flip_bit(const Tensor& array) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, array.raw(), sizeof bits);
  bits ^= 1U << 12;
  std::memcpy(array.raw(), &bits, sizeof bits);
}

Tensor first_parameter_of(const SmallRun& run, const Tensor& array) {
  return ParameterArena::part(array, run.optimizer->arena().entries().front());
}

const Damage damages[] = {
    {"a loss that is not a number", ErrorKind::config, false, false,
     [](const SmallRun& run) {
       run.trainer->observation().add_sum("main/loss", std::numeric_limits<double>::quiet_NaN(), 1);
     }},
    {"an infinite weight", ErrorKind::config, false, false,
     [](const SmallRun& run) {
       first_parameter_of(run, run.optimizer->arena().values())
           .slice(0, 1)
           .fill(std::numeric_limits<double>::infinity());
     }},
    {"an infinite state", ErrorKind::config, false, false,
     [](const SmallRun& run) {
       first_parameter_of(run, run.optimizer->states().gather("v"))
           .slice(0, 1)
           .fill(std::numeric_limits<double>::infinity());
     }},
    {"an infinite rest of a compressed gradient", ErrorKind::config, true, true,
     [](const SmallRun& run) {
       run.optimizer->step_exchange().gradient_exchange()->carried_over().front().slice(0, 1).fill(
           std::numeric_limits<double>::infinity());
     },
     /*power_sgd_rank=*/1},
    {"a flipped bit of a weight", ErrorKind::disagreement, true, true,
     [](const SmallRun& run) {
       flip_bit(first_parameter_of(run, run.optimizer->arena().values()));
     }},
    {"a flipped bit of a state", ErrorKind::disagreement, true, true,
     [](const SmallRun& run) {
       flip_bit(first_parameter_of(run, run.optimizer->states().gather("m")));
     }},
};

struct Saving {
  const char* name;
  // Makes something save after the iteration of the damage.
  std::function<void(Trainer&)> arrange;
  bool stops = false, is_at_end = false;
};

void add_checkpoint(Trainer& trainer, std::unique_ptr<Trigger> due) {
  trainer.extend(std::make_unique<Checkpoint>(Checkpoint::Settings(), std::move(due)));
}

void add_snapshot(Trainer& trainer, std::unique_ptr<Trigger> due) {
  trainer.extend(std::make_unique<Snapshot>(), {.trigger = std::move(due)});
}

// Far away: the end, or a request to stop, saves.
std::unique_ptr<Trigger> never_due() {
  return every(1'000'000, Unit::iteration);
}

const Saving savings[] = {
    {"a checkpoint after so many iterations",
     [](Trainer& trainer) { add_checkpoint(trainer, every(damaged_after, Unit::iteration)); }},
    {"a checkpoint after so many seconds",
     [](Trainer& trainer) { add_checkpoint(trainer, every_seconds(1e-6)); }},
    {"a snapshot after so many iterations",
     [](Trainer& trainer) { add_snapshot(trainer, every(damaged_after, Unit::iteration)); }},
    {"a checkpoint at the end", [](Trainer& trainer) { add_checkpoint(trainer, never_due()); },
     false, true},
    {"a snapshot at the end", [](Trainer& trainer) { add_snapshot(trainer, never_due()); }, false,
     true},
    {"a checkpoint on request", [](Trainer& trainer) { add_checkpoint(trainer, never_due()); },
     true},
    {"a snapshot on request", [](Trainer&) {}, true},
};

// The iterations of checkpoints and snapshots, by their names; -1: something unfinished.
std::vector<std::int64_t> saved_in(const std::filesystem::path& out) {
  std::vector<std::int64_t> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out)) {
    const std::string name = entry.path().filename();
    const std::size_t place = name.find("iter_");
    if (place == std::string::npos) continue;
    std::int64_t iteration = -1;
    const char* const digits = name.data() + place + 5;
    std::from_chars(digits, name.data() + name.size(), iteration);
    found.push_back(iteration);
  }
  return found;
}

class DamagedModel : public ::testing::TestWithParam<Saving> {
 protected:
  std::unique_ptr<Communicator> comm = create_communicator("naive");
  testing::TemporaryFolder folder{comm.get()};
};

TEST_P(DamagedModel, IsNeverSaved) {
  const Saving& saving = GetParam();
  for (const Damage& damage : damages) {
    if (damage.takes_several_ranks && comm->size() == 1) continue;
    SCOPED_TRACE(damage.name);
    const std::string out = folder / damage.name;
    const bool is_damaged_here = !damage.is_on_one_rank || comm->rank() == comm->size() - 1;
    SmallRun::Options options;
    options.power_sgd_rank = damage.power_sgd_rank;
    if (saving.is_at_end) options.iterations = damaged_after;
    const SmallRun run(out, comm.get(), options);
    run.trainer->extend(std::make_unique<FailOnNonNumber>());
    // What is due in this iteration finds it, not a comparison of its own.
    run.trainer->extend(check_replicas(1'000'000));
    saving.arrange(*run.trainer);
    run.trainer->extend(make_extension(
        "damage",
        [&](Trainer& training) {
          const std::int64_t now = training.updater().iteration();
          // Ranks learn of a request in the step after it.
          if (saving.stops && now == damaged_after - (comm->size() > 1 ? 1 : 0)) request_stop();
          if (now == damaged_after && is_damaged_here) damage.happen(run);
        },
        Extension::priority_writer + 1));
    const auto error = testing::caught([&] { run.trainer->run(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), damage.kind) << error->what();
    EXPECT_EQ(run.trainer->updater().iteration(), damaged_after);
    comm->barrier();
    for (const std::int64_t iteration : saved_in(out)) {
      EXPECT_GT(iteration, 0) << "a part of something";
      EXPECT_LT(iteration, damaged_after);
    }
    comm->barrier();
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedModel, ::testing::ValuesIn(savings), [](const auto& each) {
  std::string name = each.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

}  // namespace
}  // namespace tasuki
