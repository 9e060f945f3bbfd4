// How tests and their binaries say that they were skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

namespace tasuki::testing {

// ctest shows an entry that exits with this as skipped (SKIP_RETURN_CODE).
inline constexpr int skipped_exit_code = 77;

// Tests that AddressSanitizer makes impossible skip themselves and say why.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool has_address_sanitizer = true;
#else
inline constexpr bool has_address_sanitizer = false;
#endif

// The exit code for what RUN_ALL_TESTS returned: skipped when no test ran to its end, because all
// that were chosen skipped themselves; GoogleTest prints their reasons. A failure when the filter
// chose none.
inline int exit_code(int result) {
  const auto& tests = *::testing::UnitTest::GetInstance();
  if (tests.test_to_run_count() == 0 && !GTEST_FLAG_GET(list_tests)) {
    std::fprintf(stderr, "the filter %s chooses no test\n", GTEST_FLAG_GET(filter).c_str());
    return 1;
  }
  const bool all_skipped =
      tests.skipped_test_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return result == 0 && all_skipped ? skipped_exit_code : result;
}

}  // namespace tasuki::testing
