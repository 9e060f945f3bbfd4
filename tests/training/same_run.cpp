#include "same_run.hpp"
#include "tests/support/json.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tasuki::testing {

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << what;
}

void expect_same_run(const SmallRun& a, const SmallRun& b) {
  expect_same_bits(a.optimizer->arena().values(), b.optimizer->arena().values(), "parameters");
  for (const std::string& name : a.optimizer->states().names())
    expect_same_bits(a.optimizer->states().gather(name), b.optimizer->states().gather(name), name);
  EXPECT_EQ(a.optimizer->t(), b.optimizer->t());
  for (const std::string& name : a.optimizer->hyperparameters())
    EXPECT_EQ(a.optimizer->get(name), b.optimizer->get(name)) << name;
  EXPECT_EQ(a.trainer->updater().iteration(), b.trainer->updater().iteration());
  EXPECT_EQ(a.trainer->updater().state(), b.trainer->updater().state());
  auto log_a = a.log->entries(), log_b = b.log->entries();
  for (auto* log : {&log_a, &log_b})
    for (auto& entry : *log) entry.erase("elapsed_time");
  EXPECT_EQ(log_a, log_b);
}

}  // namespace tasuki::testing
