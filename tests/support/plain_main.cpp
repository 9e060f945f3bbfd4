// main of the tests that run as one plain process.
#include <gtest/gtest.h>

#include <cstdio>

#include "skip.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) {
    std::fprintf(stderr, "unknown argument %s\n", argv[1]);
    return 64;
  }
  return tasuki::testing::exit_code(RUN_ALL_TESTS());
}
