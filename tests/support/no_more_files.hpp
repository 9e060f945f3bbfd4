// A process that cannot open any more files.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace tasuki::testing {

// Takes all descriptors up to a limit. (With a limit below those that are open poll() fails, too,
// and MPI with it.)
class NoMoreFiles {
 public:
  // `applies`: nothing happens without it. `left`: descriptors that are left free.
  explicit NoMoreFiles(bool applies = true, int left = 0) {
    constexpr rlim_t limit = 512;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    if (!applies) return;
    rlimit lower = before_;
    lower.rlim_cur = std::min(limit, before_.rlim_cur);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
    for (int file; (file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(file);
    for (; left > 0 && !taken_.empty(); --left) {
      close(taken_.back());
      taken_.pop_back();
    }
    EXPECT_FALSE(taken_.empty());
  }
  ~NoMoreFiles() {
    for (const int file : taken_) close(file);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace tasuki::testing
