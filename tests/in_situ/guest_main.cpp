// The main function of tests in a program that has its own MPI, with MPI_THREAD_FUNNELED, or with
// MPI_THREAD_MULTIPLE if the first argument is "threads". Otherwise as tests/support/mpi_main.cpp.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <string_view>

#include "tests/support/gathering_printer.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/watchdog.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const bool has_threads = argc > 1 && std::string_view(argv[1]) == "threads";
  const int level = has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, level, &provided);
  if (provided < level) {
    std::fprintf(stderr, "MPI offers the thread level %d, not %d\n", provided, level);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  tasuki::testing::gather_failures_on_rank_0();
  tasuki::testing::watch_for_hangs();
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return tasuki::testing::exit_code(failed);
}
