// Copies of the weights that are compared over the ranks.
#include "training/extensions/check_replicas.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "communicator/registry.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/replica_hash.hpp"
#include "training/extensions/snapshot.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::SmallRun;
using testing::TemporaryFolder;

TEST(ReplicaComparison, NamesDeviationsFromTheMajority) {
  const auto compare = [](const std::vector<std::uint64_t>& hashes,
                          const std::vector<int>& holders) {
    const ReplicaComparison found = compare_replicas(hashes, holders);
    return std::pair(found.deviating, found.has_majority);
  };
  using Ranks = std::vector<int>;
  EXPECT_EQ(compare({7}, {0}), std::pair(Ranks{}, true));
  EXPECT_EQ(compare({7, 7, 7}, {0, 1, 2}), std::pair(Ranks{}, true));
  EXPECT_EQ(compare({7, 7, 8}, {0, 1, 2}), std::pair(Ranks{2}, true));
  EXPECT_EQ(compare({8, 7, 7, 9, 7}, {0, 1, 2, 3, 4}), std::pair((Ranks{0, 3}), true));
  EXPECT_EQ(compare({7, 8}, {0, 1}), std::pair((Ranks{0, 1}), false));
  EXPECT_EQ(compare({7, 7, 8, 8}, {0, 1, 2, 3}), std::pair((Ranks{0, 1, 2, 3}), false));
  // One copy counts once, however many ranks read it.
  EXPECT_EQ(compare({7, 7, 7, 8}, {0, 0, 0, 3}), std::pair((Ranks{0, 1, 2, 3}), false));
  EXPECT_EQ(compare({7, 7, 7, 8, 8}, {0, 0, 0, 3, 4}), std::pair((Ranks{0, 1, 2}), true));
}

class Replicas : public ::testing::Test {
 protected:
  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

void flip_bit(const Tensor& array, std::int64_t element) {
  std::uint32_t bits = 0;
  float& value = array.data<float>()[element];
  std::memcpy(&bits, &value, sizeof bits);
  bits ^= 1U << 12;
  std::memcpy(&value, &bits, sizeof bits);
}

TEST_F(Replicas, TrainAlikeWithTheComparison) {
  const auto train = [&](bool compares) {
    const SmallRun run(folder / "out", comm.get(), {});
    if (compares) run.trainer->extend(check_replicas(1));
    run.trainer->run();
    const auto values = run.optimizer->arena().values().span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(train(true), train(false));
}

// A single bit of a weight, also where the iteration is to be saved, and of a state.
TEST_F(Replicas, AreNamedWhenTheyDeviate) {
  if (comm->size() == 1) GTEST_SKIP() << "of several ranks";
  struct Case {
    bool in_state;
    bool is_saved;
    std::int64_t every, found_after;
  };
  for (const auto& [in_state, is_saved, every_so_many, found_after] :
       {Case{false, false, 1, 7}, Case{false, true, 4, 6}, Case{true, true, 4, 6}}) {
    const SmallRun run(folder / "out", comm.get(), {});
    run.trainer->extend(check_replicas(every_so_many));
    run.trainer->extend(make_extension("flip", [&, in_state = in_state](Trainer& training) {
      if (training.updater().iteration() != 6 || comm->rank() != comm->size() - 1) return;
      const Optimizer& optimizer = *run.optimizer;
      const ParameterArena& arena = optimizer.arena();
      const std::int64_t place = arena.entries().front().offset;
      flip_bit(
          in_state ? optimizer.states().gather(optimizer.states().names().front()) : arena.values(),
          place);
    }));
    if (is_saved)
      run.trainer->extend(std::make_unique<Snapshot>(), {.trigger = every(6, Unit::iteration)});
    const std::string path = run.optimizer->arena().entries().front().path;
    testing::expect_error(
        ErrorKind::disagreement,
        {fmt::format("replicas differ after iteration {} (after iteration ", found_after),
         fmt::format(" all were equal): {} on ",
                     comm->size() == 2 ? "ranks 0, 1" : fmt::format("rank {}", comm->size() - 1)),
         comm->size() == 2 ? "none has those of a majority"
                           : fmt::format("deviates from the other {}", comm->size() - 1),
         (in_state ? fmt::format("first in state {} of ", run.optimizer->states().names().front())
                   : std::string("first in ")) +
             path},
        [&] { run.trainer->run(); });
    if (is_saved) {
      EXPECT_FALSE(std::filesystem::exists(folder / "out/snapshot_iter_6"));
    }
    comm->barrier();
  }
}

// Weights that never change do not show a state that differs, so it is found by itself, when its
// turn comes.
TEST_F(Replicas, CompareTheirStatesInTurns) {
  if (comm->size() == 1) GTEST_SKIP() << "of several ranks";
  constexpr std::int64_t flipped_after = 3;
  // Both states of the layer's 400,000 weights have more chunks than there are turns.
  const SmallRun run(folder / "out", comm.get(),
                     {.examples = 400, .batch = 2, .iterations = 50, .units = 100'000});
  run.optimizer->set("alpha", 0);
  run.trainer->extend(check_replicas(1));
  run.trainer->extend(make_extension("flip", [&](Trainer& training) {
    if (training.updater().iteration() != flipped_after || comm->rank() != 0) return;
    const Tensor state = run.optimizer->states().gather("v");
    flip_bit(state, run.optimizer->arena().entries().front().count / 2);
  }));
  testing::expect_error(ErrorKind::disagreement,
                        {"(after iteration 0 all were equal)", "first in state v of "},
                        [&] { run.trainer->run(); });
  const std::int64_t found_after = run.trainer->updater().iteration();
  EXPECT_GT(found_after, flipped_after);
  EXPECT_LE(found_after, flipped_after + state_turns);
  comm->barrier();
}

// A copy that the ranks of a node share is damaged for all of them.
TEST(SharedReplicas, AreNamedByNode) {
  const auto comm = create_communicator("auto");
  if (!comm->shares_memory()) GTEST_SKIP() << "of several ranks that can share memory";
  const TemporaryFolder folder(comm.get());
  const SmallRun run(folder / "out", comm.get(), {.shares = true});
  const std::vector<int> holders = run.optimizer->weights().holders();
  const std::set<int> copies(holders.begin(), holders.end());
  // The last node but one, whose ranks are not those of the majority if there are three nodes.
  const int damaged = copies.size() == 3 ? *std::next(copies.begin()) : holders.back();
  run.trainer->extend(check_replicas(1));
  run.trainer->extend(make_extension("flip", [&](Trainer& training) {
    if (training.updater().iteration() != 6 || comm->rank() != damaged) return;
    const ParameterArena& arena = run.optimizer->arena();
    flip_bit(arena.shared_values(), arena.entries().back().offset);
  }));
  if (copies.size() == 1) {
    EXPECT_NO_THROW(run.trainer->run());
    return;
  }
  std::vector<int> named;
  for (int rank = 0; rank < comm->size(); ++rank)
    if (copies.size() == 2 || holders[static_cast<std::size_t>(rank)] == damaged)
      named.push_back(rank);
  std::vector<std::string> words = {
      copies.size() == 2 ? "none has those of a majority"
                         : fmt::format(" from the other {}", comm->size() - std::ssize(named)),
      ", first in " + run.optimizer->arena().entries().back().path};
  if (copies.size() == 3)
    words.push_back(fmt::format("{} {} on {}", named.size() == 1 ? "rank" : "ranks",
                                fmt::join(named, ", "),
                                comm->topology().host_of[static_cast<std::size_t>(damaged)]));
  testing::expect_error(ErrorKind::disagreement, words, [&] { run.trainer->run(); });
  EXPECT_EQ(run.trainer->updater().iteration(), 7);
  comm->barrier();
}

// Ranks with different parts of a model have different weights: each set of replicas compares
// itself, and ranks are named by their numbers in the job.
TEST_F(Replicas, CompareOnlyWithinTheirSet) {
  if (comm->size() != 4) GTEST_SKIP() << "of two parts with two replicas each";
  const int part = comm->rank() % 2;
  const auto replicas = comm->split(part, comm->rank());
  for (const bool is_damaged : {false, true}) {
    Linear model(12, 4 + part);
    model.initialize(static_cast<std::uint64_t>(part));
    const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *replicas);
    optimizer->setup(model);
    StandardUpdater::Settings settings;
    settings.all_ranks = comm.get();
    Trainer trainer(std::make_unique<StandardUpdater>(
                        create_shuffled_iterator(
                            testing::share_of(testing::synthetic(40), replicas.get()), 5, 3),
                        *optimizer,
                        [&](const Batch& batch, Observation&) {
                          const Variable y = model(Variable(batch["x"]));
                          return F::mean_squared_error(y, Tensor::full(y.shape(), 1));
                        },
                        settings),
                    stop_after(100, 8), folder / "out");
    trainer.extend(check_replicas(2));
    trainer.extend(make_extension("flip", [&](Trainer& training) {
      if (is_damaged && training.updater().iteration() == 4 && comm->rank() == 3)
        flip_bit(optimizer->arena().values(), optimizer->arena().entries().back().offset);
    }));
    const auto error = testing::caught([&] { trainer.run(); });
    if (!is_damaged) {
      EXPECT_FALSE(error) << error->what();
    } else {  // on all ranks, whatever their part
      ASSERT_TRUE(error);
      const auto& hosts = comm->topology().host_of;
      const std::string ranks =
          hosts[1] == hosts[3] ? "ranks 1, 3 on " + hosts[1]
                               : fmt::format("rank 1 on {} and rank 3 on {}", hosts[1], hosts[3]);
      const std::string expected = "after iteration 6 (after iteration 4 all were equal): " + ranks;
      EXPECT_NE(std::string(error->what()).find(expected), std::string::npos) << error->what();
    }
  }
}

TEST_F(Replicas, AreNotComparedOnASingleRank) {
  if (comm->size() > 1) GTEST_SKIP() << "of one rank";
  const SmallRun run(folder / "out", comm.get(), {});
  run.trainer->extend(check_replicas(1));
  ::testing::internal::CaptureStderr();
  run.trainer->run();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: --check-replicas has nothing to compare: no other rank has a copy of the "
            "weights\n");
}

TEST_F(Replicas, AreRejectedWithoutAnExchange) {
  if (comm->size() == 1) GTEST_SKIP() << "of several ranks";
  const auto dummy = create_communicator("dummy");
  const SmallRun run(folder / "out", dummy.get(), {});
  run.trainer->extend(check_replicas(1));
  testing::expect_error(ErrorKind::usage, {"--communicator dummy"}, [&] { run.trainer->run(); });
}

}  // namespace
}  // namespace tasuki
