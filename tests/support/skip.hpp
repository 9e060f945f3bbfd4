// How tests and their binaries say that they were skipped.
#pragma once

#include <gtest/gtest.h>

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
// that were chosen skipped themselves. GoogleTest prints their reasons.
inline int exit_code(int result) {
  const auto& tests = *::testing::UnitTest::GetInstance();
  const bool all_skipped =
      tests.skipped_test_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return result == 0 && all_skipped ? skipped_exit_code : result;
}

}  // namespace tasuki::testing
