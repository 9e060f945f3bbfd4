// Runs one binary's tests on all ranks of an mpirun: every rank runs the same tests in the same
// order, rank 0 prints, and the run fails when any rank fails.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>

#include "communicator/mpi/mpi.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "gathering_printer.hpp"
#include "job/run_job.hpp"
#include "skip.hpp"
#include "watchdog.hpp"

namespace {

// ctest says how many ranks it started; a launcher that started something else (single processes,
// say, because of another MPI) would let all tests pass without testing anything.
void check_world_size() {
  const char* expected = std::getenv("TASUKI_TEST_NP");
  int size = 0;
  TASUKI_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size);
  if (expected != nullptr && std::to_string(size) != expected)
    tasuki::fail_everywhere(tasuki::ErrorKind::config,
                            "this test was to run with {} ranks and runs with {}", expected, size);
}

// Tests that differ between ranks would wait for each other forever.
void check_same_tests() {
  if (GTEST_FLAG_GET(shuffle))
    tasuki::fail_everywhere(tasuki::ErrorKind::usage, "tests under mpirun cannot be shuffled");
  const std::string filter = GTEST_FLAG_GET(filter);
  const auto own = static_cast<long long>(tasuki::hash_text(filter) >> 1);
  long long largest = own;
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &largest, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
  if (largest != own)
    tasuki::fail(tasuki::ErrorKind::disagreement, "the filter {} is not that of all ranks", filter);
}

int run_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  check_world_size();
  check_same_tests();
  tasuki::testing::gather_failures_on_rank_0();
  tasuki::testing::watch_for_hangs();

  int failed = RUN_ALL_TESTS();
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return tasuki::testing::exit_code(failed);
}

}  // namespace

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, run_tests);
}
