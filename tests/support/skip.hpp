// How a test binary says that it was skipped.
#pragma once

#include <gtest/gtest.h>

namespace tasuki::testing {

// ctest shows an entry that exits with this as skipped (SKIP_RETURN_CODE).
inline constexpr int skipped_exit_code = 77;

// The exit code for what RUN_ALL_TESTS returned: skipped when no test ran to its end, because all
// that were chosen skipped themselves. GoogleTest prints their reasons.
inline int exit_code(int result) {
  const auto& tests = *::testing::UnitTest::GetInstance();
  const bool all_skipped =
      tests.skipped_test_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return result == 0 && all_skipped ? skipped_exit_code : result;
}

}  // namespace tasuki::testing
