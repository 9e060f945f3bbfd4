#include "tasuki/core/job_age.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace tasuki {
namespace {

class JobAge : public ::testing::Test {
 protected:
  ~JobAge() override { unsetenv(job_start_variable); }
};

TEST_F(JobAge, IsThatOfTheProcessWithoutASupervisor) {
  unsetenv(job_start_variable);
  const double first = job_age();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, 300);
  EXPECT_GE(job_age(), first);
}

TEST_F(JobAge, CountsFromTheSupervisorsStart) {
  setenv(job_start_variable, fmt::format("{}", std::time(nullptr) - 1000).c_str(), 1);
  EXPECT_GE(job_age(), 999);
  EXPECT_LT(job_age(), 1300);
}

TEST_F(JobAge, IgnoresAStartInTheFutureAndWhatIsNoNumber) {
  for (const char* const start : {"99999999999", "", "soon", "1x", "nan", "inf"}) {
    setenv(job_start_variable, start, 1);
    EXPECT_GE(job_age(), 0) << start;
    EXPECT_LT(job_age(), 300) << start;
  }
}

}  // namespace
}  // namespace tasuki
