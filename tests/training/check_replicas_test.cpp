// Copies of the weights that are compared over the ranks.
#include "tasuki/training/extensions/check_replicas.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "errors.hpp"
#include "small_run.hpp"
#include "tasuki/communicator/registry.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::SmallRun;
using testing::TemporaryFolder;

TEST(ReplicaComparison, NamesThoseThatDeviateFromAMajorityOfCopies) {
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
  // A rank may have changed its view of a copy.
  EXPECT_EQ(compare({7, 9}, {0, 0}), std::pair(Ranks{1}, true));
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

TEST_F(Replicas, ThatAreEqualTrainAsWithoutTheComparison) {
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
TEST_F(Replicas, ThatDeviateAreNamed) {
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
      flip_bit(in_state ? optimizer.gather_state(optimizer.state_names().front()) : arena.values(),
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
         (in_state ? fmt::format("first in state {} of ", run.optimizer->state_names().front())
                   : std::string("first in ")) +
             path},
        [&] { run.trainer->run(); });
    if (is_saved) {
      EXPECT_FALSE(std::filesystem::exists(folder / "out/snapshot_iter_6"));
    }
    comm->barrier();
  }
}

TEST_F(Replicas, OfRanksThatExchangeNothingAreRefused) {
  if (comm->size() == 1) GTEST_SKIP() << "of several ranks";
  const auto dummy = create_communicator("dummy");
  const SmallRun run(folder / "out", dummy.get(), {});
  run.trainer->extend(check_replicas(1));
  testing::expect_error(ErrorKind::usage, {"--communicator dummy"}, [&] { run.trainer->run(); });
}

}  // namespace
}  // namespace tasuki
