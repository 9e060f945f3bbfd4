// An error of one rank, in a program that goes on: how the others learn of it.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include "communicator/leave.hpp"
#include "core/error.hpp"
#include "guest_training.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {
namespace {

struct Way {
  const char* name;
  const char* kind;
  CommunicatorOptions options;
};

// Those whose messages Tasuki sends itself.
class ErrorOfOneRank : public ::testing::TestWithParam<Way> {
 protected:
  static bool is_failing() { return rank_in(MPI_COMM_WORLD) == 1; }
  // Rank 1's loss throws in step 3, and the others learn of it.
  static void expect_that_one_fails(GuestTraining& training) {
    if (is_failing()) {
      EXPECT_THROW(training.step(3,
                                 [](const Variable&, const Tensor&) -> Variable {
                                   throw std::runtime_error("the loss exploded");
                                 }),
                   std::runtime_error);
    } else {
      SCOPED_TRACE("in the step");
      expect_error(ErrorKind::io, {"rank 1 on ", "has left: the loss exploded"},
                   [&] { training.step(3); });
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Ways, ErrorOfOneRank,
    ::testing::Values(Way{"auto", "auto", {}}, Way{"hierarchical", "hierarchical", {}},
                      Way{"two_dimensional", "two_dimensional", {}},
                      Way{"ring", "flat", {.algorithm = AllreduceAlgorithm::ring}},
                      Way{"rounded", "naive", {.wire_dtype = DType::float16}}),
    [](const auto& info) { return info.param.name; });

TEST_P(ErrorOfOneRank, ReachesTheOthersInAStep) {
  {
    GuestTraining training(MPI_COMM_WORLD, 1, GetParam().kind, GetParam().options);
    training.steps(0, 3);
    // The error also reaches ranks that are still in an earlier step.
    MPI_Barrier(MPI_COMM_WORLD);
    expect_that_one_fails(training);
    // Everything that begins afterwards is refused at once, on all ranks.
    SCOPED_TRACE("afterwards");
    expect_error(ErrorKind::io, {"rank 1 on ", "can only be destroyed"},
                 [&] { training.communicator().barrier(); });
    expect_error(ErrorKind::io, {"the loss exploded"}, [&] { training.step(4); });
  }
  // The program goes on, and so can a new training.
  MPI_Barrier(MPI_COMM_WORLD);
  GuestTraining next(MPI_COMM_WORLD, 1, GetParam().kind, GetParam().options);
  next.steps(0, 3);
  EXPECT_EQ(next.optimizer().t(), 3);
}

// Weights are gathered one unit ahead when the rank fails.
TEST_P(ErrorOfOneRank, ReachesOthersThatGatherWeights) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs an MPI with threads";
  const std::string kind = GetParam().kind;
  if (kind == "flat" || kind == "naive")
    GTEST_SKIP() << kind << " gathers weights by an operation of MPI's own (leave.hpp)";
  for (const bool is_first_pass : {true, false}) {
    GuestTraining training(MPI_COMM_WORLD, 1, GetParam().kind, GetParam().options,
                           Sharding::weights);
    EXPECT_TRUE(training.optimizer().divides_weights());
    if (!is_first_pass) training.steps(0, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    expect_that_one_fails(training);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Ranks 1, 2, ...: their first rank prints what all of them meet, and announces what only it meets.
TEST(LoneError, OfTheFirstRankIsToldFromOneOfAll) {
  if (size_of(MPI_COMM_WORLD) < 3) GTEST_SKIP() << "needs 3 ranks";
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_in(MPI_COMM_WORLD) == 0 ? MPI_UNDEFINED : 1, 0, &part);
  if (part == MPI_COMM_NULL) return;
  {
    GuestTraining training(part);
    training.steps(0, 3);
    MPI_Barrier(part);
    const auto fail_alone = [](const Variable&, const Tensor&) -> Variable {
      fail(ErrorKind::data, "a bad batch");
    };
    if (training.communicator().rank() == 0)
      EXPECT_THROW(training.step(3, fail_alone), Error);
    else
      expect_error(ErrorKind::io, {"has left: a bad batch"}, [&] { training.step(3); });
  }
  {
    GuestTraining training(part);
    const ErrorScope scope = training.communicator().topology().shared_error_scope;
    EXPECT_EQ(scope == ErrorScope::every_rank_printed_here, training.communicator().rank() == 0);
    const auto fail_together = [&](const Variable&, const Tensor&) -> Variable {
      throw Error(ErrorKind::data, "bad data", scope);
    };
    EXPECT_THROW(training.step(0, fail_together), Error);
    training.communicator().barrier();  // can be used on
  }
  MPI_Comm_free(&part);
}

// Late messages must not reach a communicator that is made afterwards.
class LateMessage : public ErrorOfOneRank {};
INSTANTIATE_TEST_SUITE_P(
    Ways, LateMessage,
    ::testing::Values(Way{"auto", "auto", {}}, Way{"hierarchical", "hierarchical", {}},
                      Way{"two_dimensional", "two_dimensional", {}},
                      Way{"ring", "flat", {.algorithm = AllreduceAlgorithm::ring}}),
    [](const auto& info) { return info.param.name; });

TEST_P(LateMessage, ComesAfterTheRankThatLeftHasDestroyedItsCommunicator) {
  const bool is_leaving = rank_in(MPI_COMM_WORLD) == 0;
  auto training =
      std::make_unique<GuestTraining>(MPI_COMM_WORLD, 1, GetParam().kind, GetParam().options);
  training->steps(0, 3);
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_leaving) {
    leave(training->communicator(), "no more data");
    training.reset();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!is_leaving) {
    expect_error(ErrorKind::io, {"no more data"}, [&] { training->step(3); });
    training.reset();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // These communicators of one rank get the numbers in MPI that were freed. Open MPI crashes if a
  // late message arrives in one.
  std::array<MPI_Comm, 16> alone{};
  for (MPI_Comm& comm : alone) {
    MPI_Comm_split(MPI_COMM_WORLD, rank_in(MPI_COMM_WORLD), 0, &comm);
    int has_arrived = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &has_arrived, MPI_STATUS_IGNORE);
    EXPECT_EQ(has_arrived, 0) << "a late message";
  }
  {
    GuestTraining next(MPI_COMM_WORLD, 1, GetParam().kind, GetParam().options);
    next.steps(0, 3);
  }
  for (MPI_Comm& comm : alone) MPI_Comm_free(&comm);
}

TEST(LoneError, ReachesRanksThatWaitForAMessage) {
  const auto communicator = create_communicator("naive", MPI_COMM_WORLD);
  if (rank_in(MPI_COMM_WORLD) == 1)
    leave(*communicator, "no more data");
  else
    expect_error(ErrorKind::io, {"rank 1 on ", "no more data"}, [&] { communicator->recv(1); });
}

TEST(LoneError, IsNotedWhenItUnwindsTheCommunicatorsScope) {
  const auto work = [] {
    const auto communicator = create_communicator("naive", MPI_COMM_WORLD);
    if (rank_in(MPI_COMM_WORLD) == 1) throw std::runtime_error("elsewhere");
    communicator->recv(1);
  };
  if (rank_in(MPI_COMM_WORLD) == 1)
    EXPECT_THROW(work(), std::runtime_error);
  else
    expect_error(ErrorKind::io, {"rank 1 on ", "an exception"}, work);
}

TEST(SharedError, LeavesTheCommunicatorAsItIs) {
  // Ranks with different rules: all throw in setup(), none leaves.
  const auto communicator = create_communicator("auto", MPI_COMM_WORLD);
  MLP model(2, 2, 2);
  model.initialize(1);
  const auto optimizer = create_multi_node_optimizer(
      create_optimizer(communicator->rank() == 0 ? "sgd" : "adam"), *communicator);
  expect_error(ErrorKind::disagreement, {"rank 0", "rank 1"}, [&] { optimizer->setup(model); });
  communicator->barrier();
}

}  // namespace
}  // namespace tasuki::testing
