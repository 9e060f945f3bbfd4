#include "core/job_process.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tasuki {
namespace {

class JobAge : public ::testing::Test {
 protected:
  ~JobAge() override { unsetenv(job_age_variable); }
};

TEST_F(JobAge, IsTheProcessAgeWithoutASupervisor) {
  unsetenv(job_age_variable);
  const double first = job_age();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, 300);
  EXPECT_GE(job_age(), first);
}

TEST_F(JobAge, CountsFromTheSupervisorsStart) {
  setenv(job_age_variable, "1000.5", 1);
  EXPECT_GE(job_age(), 1000.5);
  EXPECT_LT(job_age(), 1300);
}

TEST_F(JobAge, IgnoresInvalidValues) {
  for (const char* const age : {"-1", "", "soon", "1x", "nan", "inf"}) {
    setenv(job_age_variable, age, 1);
    EXPECT_GE(job_age(), 0) << age;
    EXPECT_LT(job_age(), 300) << age;
  }
}

}  // namespace
}  // namespace tasuki
