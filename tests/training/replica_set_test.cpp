// Sets of ranks with separate files.
#include "saving/replica_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "communicator/registry.hpp"
#include "communicator/text_bytes.hpp"
#include "same_run.hpp"
#include "saving/output_layout.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using testing::expect_same_run;
using ::testing::HasSubstr;
using testing::SmallRun;
using testing::TemporaryFolder;
using ::testing::UnorderedElementsAreArray;

TEST(ReplicaSets, GroupUnnamedRanks) {
  EXPECT_EQ(complete_replica_sets({{0}}, 4), (ReplicaSets{{0}, {1, 2, 3}}));
  EXPECT_EQ(complete_replica_sets({{0}, {1}}, 4), (ReplicaSets{{0}, {1}, {2, 3}}));
  EXPECT_EQ(complete_replica_sets({{0, 1}, {2, 3}}, 4), (ReplicaSets{{0, 1}, {2, 3}}));
  EXPECT_EQ(complete_replica_sets({{3, 2}, {1, 0}}, 4), (ReplicaSets{{2, 3}, {0, 1}}));
  EXPECT_EQ(complete_replica_sets({}, 4), (ReplicaSets{{0, 1, 2, 3}}));
  EXPECT_EQ(complete_replica_sets({{0}}, 1), (ReplicaSets{{0}}));
  std::vector<int> evens, odds;
  for (int rank = 0; rank < 16; ++rank) (rank % 2 == 0 ? evens : odds).push_back(rank);
  EXPECT_EQ(complete_replica_sets({evens}, 16), (ReplicaSets{evens, odds}));
}

TEST(ReplicaSets, RejectImpossibleRanks) {
  const auto error = [](const ReplicaSets& sets) {
    return error_of([&] { complete_replica_sets(sets, 4); });
  };
  EXPECT_THAT(error({{0, 4}}), HasSubstr("rank 4 of a replica set does not exist; there are 4"));
  EXPECT_THAT(error({{-1}}), HasSubstr("rank -1"));
  EXPECT_THAT(error({{0, 1}, {1, 2}}), HasSubstr("rank 1 is named twice"));
  EXPECT_THAT(error({{2, 2}}), HasSubstr("rank 2 is named twice"));
  EXPECT_THAT(error({{0}, {}}), HasSubstr("a replica set without ranks"));
}

class ReplicaSnapshot : public ::testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    comm->barrier();
    for (const auto& file : std::filesystem::directory_iterator(folder / "out"))
      if (const std::string name = file.path().filename().string();
          name != "log" && name != "most_accurate" && name != ".lock" && name != latest_name)
        names.push_back(name);
    comm->barrier();
    return names;
  }
  // Every set trains another model, from another seed.
  std::unique_ptr<SmallRun> run_of(const ReplicaSet& set, std::int64_t iterations) const {
    const auto seed = static_cast<unsigned char>(set.suffix().back());
    return std::make_unique<SmallRun>(
        folder / ("out" + set.suffix()), &set.members(),
        SmallRun::Options{.epochs = 100, .iterations = iterations, .seed = seed});
  }
  // Rank 0, and all others where there are any.
  std::vector<std::string> with_suffixes(const std::vector<std::string>& names) const {
    std::vector<std::string> all;
    for (const std::string& name : names) {
      all.push_back(name + ".0");
      if (comm->size() > 1) all.push_back(name + ".1");
    }
    return all;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

TEST_F(ReplicaSnapshot, IsWrittenByEachSetsFirstRank) {
  const ReplicaSet set(*comm, {{0}});
  EXPECT_EQ(set.suffix(), comm->rank() == 0 ? ".0" : ".1");
  EXPECT_EQ(set.members().size(), comm->rank() == 0 ? 1 : comm->size() - 1);
  const auto whole = run_of(set, 9);
  whole->trainer->run();
  const auto first = run_of(set, 5);
  first->trainer->run();
  if (comm->rank() == 0) std::filesystem::create_directory(folder / "out");
  comm->barrier();
  save_snapshot(folder / "out/state", *first->trainer, &set);
  EXPECT_THAT(files(), UnorderedElementsAreArray(with_suffixes({"state"})));

  const auto second = run_of(set, 9);
  resume(folder / "out/state", *second->trainer, &set);
  EXPECT_EQ(second->trainer->updater().iteration(), 5);
  second->trainer->run();
  expect_same_run(*whole, *second);
}

// Another job has made it again and is quicker than this one.
TEST_F(ReplicaSnapshot, FollowsFolderChangeInAllSets) {
  std::unique_ptr<OutputFolder> quicker;
  SmallRun run(folder / "out", comm.get(), SmallRun::Options{.epochs = 100, .iterations = 4});
  run.trainer->extend(make_extension("remove",
                                     [&](Trainer& trainer) {
                                       if (!trainer.is_root()) return;
                                       if (trainer.updater().iteration() != 3) return;
                                       std::filesystem::remove_all(folder / "out");
                                       quicker = std::make_unique<OutputFolder>(folder / "out");
                                       quicker->take(OldResults::leave);
                                     }),
                      {.trigger = every(1, Unit::iteration)});
  run.trainer->extend(create_multi_node_snapshot(std::make_unique<Snapshot>(), *comm, {{0}}),
                      {.trigger = every(4, Unit::iteration)});
  run.trainer->run();
  EXPECT_EQ(run.trainer->out(), folder / "out-2");
  comm->barrier();
  for (const std::string& name : with_suffixes({"snapshot_iter_4"}))
    EXPECT_TRUE(std::filesystem::exists(folder / "out-2" / name)) << name;
  EXPECT_THAT(files(), ::testing::IsEmpty()) << "in the other job's folder";
}

// One trainer over all ranks; each set saves and loads its own snapshots.
TEST_F(ReplicaSnapshot, AutoloadRestoresNewestCommonToAllSets) {
  const auto run = [&](std::int64_t iterations) {
    auto made = std::make_unique<SmallRun>(
        folder / "out", comm.get(), SmallRun::Options{.epochs = 100, .iterations = iterations});
    made->trainer->extend(create_multi_node_snapshot(std::make_unique<Snapshot>(Snapshot::Settings{
                                                         .n_retains = 2, .autoload = true}),
                                                     *comm, {{0}}),
                          {.trigger = every(2, Unit::iteration)});
    made->trainer->run();
    return made;
  };
  run(7);
  const std::vector<std::string> kept = {"snapshot_iter_4", "snapshot_iter_6"};
  EXPECT_THAT(files(), UnorderedElementsAreArray(with_suffixes(kept)));
  // The last one was not finished on the last set.
  if (comm->rank() == 0)
    std::filesystem::remove(folder / ("out/" + with_suffixes({"snapshot_iter_6"}).back()));
  comm->barrier();
  const auto resumed = run(4);
  EXPECT_EQ(resumed->trainer->updater().iteration(), 4);
  const SmallRun whole(folder / "whole", comm.get(), {.epochs = 100, .iterations = 11});
  whole.trainer->run();
  expect_same_run(whole, *run(11));
}

TEST_F(ReplicaSnapshot, ReportsFailureOfOneSetOnAllRanks) {
  const ReplicaSet set(*comm, {{0}});
  const auto run = run_of(set, 1);
  if (comm->rank() == 0) std::filesystem::create_directories(folder / "out");
  comm->barrier();
  const std::string last = with_suffixes({"state"}).back();
  const auto expect_error = [&](const std::function<void()>& work) {
    const std::string message = error_of(work);
    EXPECT_THAT(message, HasSubstr(last));
    for (const Bytes& other : allgather_bytes(*comm, text_to_bytes(message)))
      EXPECT_EQ(bytes_to_text(other), message);
  };
  // A folder is where the file should be.
  if (comm->rank() == 0) std::filesystem::create_directories(folder / "out" / last / "inside");
  comm->barrier();
  expect_error([&] { save_snapshot(folder / "out/state", *run->trainer, &set); });
  if (comm->rank() == 0) std::filesystem::remove_all(folder / "out" / last);
  comm->barrier();
  save_snapshot(folder / "out/state", *run->trainer, &set);
  comm->barrier();
  if (comm->rank() == 0) std::ofstream(folder / "out" / last) << "no snapshot";
  comm->barrier();
  expect_error([&] { resume(folder / "out/state", *run->trainer, &set); });
}

}  // namespace
}  // namespace tasuki
