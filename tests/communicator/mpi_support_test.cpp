// Checked calls, owners of handles, and errors of the registry.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/registry.hpp"
#include "communicator/run_on_root.hpp"
#include "job/run_job.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::error_of;

// The beginning of an error's text in Open MPI, and in MPICH and Intel MPI.
std::string cause([[maybe_unused]] const char* open_mpis, [[maybe_unused]] const char* others) {
#ifdef OPEN_MPI
  return open_mpis;
#else
  return others;
#endif
}

TEST(CheckedMpi, ErrorsNameCallAndCause) {
  int value = 0;
  const std::string text =
      error_of([&] { TASUKI_MPI(MPI_Bcast, &value, 1, MPI_INT, -5, MPI_COMM_WORLD); });
  EXPECT_NE(text.find("MPI_Bcast failed: " + cause("MPI_ERR_ROOT", "Invalid root")),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(CheckedMpi, DuplicatesReturnErrors) {
  const MpiComm duplicate = MpiComm::duplicate(MPI_COMM_WORLD);
  int value = 0;
  const std::string text =
      error_of([&] { TASUKI_MPI(MPI_Send, &value, 1, MPI_INT, 1000000, 0, duplicate.get()); });
  EXPECT_NE(text.find("MPI_Send failed: " + cause("MPI_ERR_RANK", "Invalid rank")),
            std::string::npos)
      << text;
}

TEST(MpiCommOwner, MovesLeaveTheSourceEmpty) {
  MpiComm first = MpiComm::duplicate(MPI_COMM_WORLD);
  MpiComm second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
  ASSERT_TRUE(second);
  second = MpiComm::duplicate(second.get());
  MpiComm& alias = second;
  second = std::move(alias);
  EXPECT_TRUE(second);
  int size = 0;
  TASUKI_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size);
  EXPECT_EQ(second.size(), size);
}

TEST(MpiCommOwner, IsEmptyForRanksLeftOutOfASplit) {
  const int rank = MpiComm::duplicate(MPI_COMM_WORLD).rank();
  const MpiComm part = MpiComm::split(MPI_COMM_WORLD, rank == 0 ? 0 : MPI_UNDEFINED, 0);
  EXPECT_EQ(static_cast<bool>(part), rank == 0);
}

// Printed once and without delay, whether or not rank 0 of the job meets the error.
TEST(SharedErrors, AreReportedByOneRank) {
  const auto comm = create_communicator("naive");
  const auto part = comm->split(comm->rank() == 0 ? 0 : 1, -comm->rank());
  const bool speaks = comm->rank() != 0 && part->rank() == 0;
  const auto expected = speaks ? ErrorScope::every_rank_printed_here : ErrorScope::every_rank;
  const auto scope_of = [](const auto& function) {
    try {
      function();
    } catch (const Error& error) {
      return std::optional(error.scope());
    }
    return std::optional<ErrorScope>();
  };
  const auto lines = std::vector{fmt::format("rank {}", part->rank())};
  const auto fails = []() -> Bytes { fail(ErrorKind::data, "planted"); };
  EXPECT_EQ(scope_of([&] { run_on_root(*part, 0, fails); }), expected);
  EXPECT_EQ(scope_of([&] { run_on_root(*comm, 0, fails); }), ErrorScope::every_rank);
  if (part->size() == 1) return;
  EXPECT_EQ(scope_of([&] { check_agreement(*part, lines, "as planned"); }), expected);
  EXPECT_EQ(scope_of([&] { part->bcast_data(Tensor::zeros({1 + part->rank()})); }), expected);
}

TEST(Registry, ListsKnownNamesForAnUnknownOne) {
  const std::string text = error_of([] { create_communicator("hierachical"); });
  EXPECT_NE(text.find("unknown communicator 'hierachical'"), std::string::npos) << text;
  for (const char* name :
       {"naive", "flat", "single_node", "hierarchical", "two_dimensional", "dummy", "auto"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
    EXPECT_NE(communicator_help().find(name), std::string::npos) << name;
  }
}

TEST(Registry, RejectsDuplicateNames) {
  CommunicatorKind kind{"naive", "", "", nullptr};
  EXPECT_THROW(register_communicator(kind), Error);
}

TEST(Registry, CreatesAProgramsOwnKind) {
  static bool registered = false;
  if (!std::exchange(registered, true))
    register_communicator({"of_this_program", "for a test", "-", [](CommunicatorSetup setup) {
                             setup.name = "naive";
                             return create_communicator(setup);
                           }});
  EXPECT_EQ(create_communicator("of_this_program")->name(), "naive");
}

TEST(Environment, MakesRanksYieldWhileWaiting) {
  ASSERT_NE(std::getenv("OMPI_MCA_mpi_yield_when_idle"), nullptr);
  EXPECT_STREQ(std::getenv("OMPI_MCA_mpi_yield_when_idle"), "1");
}

}  // namespace
}  // namespace tasuki
