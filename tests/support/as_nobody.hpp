// Permissions apply to a test, also where root runs it.
#pragma once

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <filesystem>

namespace tasuki::testing {

// While it lives, this thread looks at files as nobody does if root runs the test. Makes `folder`
// nobody's, so that it may still be written in.
class AsNobody {
 public:
  explicit AsNobody(const std::filesystem::path& folder) {
    if (::geteuid() != 0) return;
    EXPECT_EQ(::chown(folder.c_str(), nobody, nobody), 0);
    ::setfsuid(nobody);
  }
  ~AsNobody() { ::setfsuid(::geteuid()); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t nobody = 65534;
};

}  // namespace tasuki::testing
