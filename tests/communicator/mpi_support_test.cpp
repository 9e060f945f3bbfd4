// Checked calls, owners of handles, and what the registry says.
#include <gtest/gtest.h>

#include <utility>

#include "tasuki/communicator/environment.hpp"
#include "tasuki/communicator/mpi.hpp"
#include "tasuki/communicator/registry.hpp"

namespace tasuki {
namespace {

template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CheckedMpi, ErrorsNameTheCallAndTheCause) {
  int value = 0;
  const std::string text =
      error_of([&] { TASUKI_MPI(MPI_Bcast, &value, 1, MPI_INT, -5, MPI_COMM_WORLD); });
  EXPECT_NE(text.find("MPI_Bcast failed: MPI_ERR_ROOT"), std::string::npos) << text;
}

TEST(CheckedMpi, ErrorsOfDuplicatesAreReturnedToo) {
  const MpiComm duplicate = MpiComm::duplicate(MPI_COMM_WORLD);
  int value = 0;
  const std::string text =
      error_of([&] { TASUKI_MPI(MPI_Send, &value, 1, MPI_INT, 1000000, 0, duplicate.get()); });
  EXPECT_NE(text.find("MPI_Send failed: MPI_ERR_RANK"), std::string::npos) << text;
}

TEST(MpiCommOwner, MovesLeaveNothingBehind) {
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

TEST(MpiCommOwner, RanksLeftOutOfASplitGetNone) {
  const int rank = MpiComm::duplicate(MPI_COMM_WORLD).rank();
  const MpiComm part = MpiComm::split(MPI_COMM_WORLD, rank == 0 ? 0 : MPI_UNDEFINED, 0);
  EXPECT_EQ(static_cast<bool>(part), rank == 0);
}

TEST(Registry, UnknownNameListsTheKnownOnes) {
  const std::string text = error_of([] { create_communicator("hierachical"); });
  EXPECT_NE(text.find("unknown communicator 'hierachical'"), std::string::npos) << text;
  for (const char* name :
       {"naive", "flat", "single_node", "hierarchical", "two_dimensional", "dummy", "auto"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
    EXPECT_NE(communicator_help().find(name), std::string::npos) << name;
  }
}

TEST(Registry, ANameCanBeTakenOnce) {
  CommunicatorKind kind{"naive", "", "", nullptr};
  EXPECT_THROW(register_communicator(kind), Error);
}

TEST(Registry, AProgramsOwnKindIsCreatedByName) {
  static bool registered = false;
  if (!std::exchange(registered, true))
    register_communicator({"of_this_program", "for a test", "-",
                           [](MPI_Comm comm, const CommunicatorOptions& options) {
                             return create_communicator("naive", comm, options);
                           }});
  EXPECT_EQ(create_communicator("of_this_program")->name(), "naive");
}

TEST(Environment, RanksLetOthersRunWhileTheyWait) {
  ASSERT_NE(std::getenv("OMPI_MCA_mpi_yield_when_idle"), nullptr);
  EXPECT_STREQ(std::getenv("OMPI_MCA_mpi_yield_when_idle"), "1");
}

}  // namespace
}  // namespace tasuki
