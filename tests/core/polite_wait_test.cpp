#include "core/polite_wait.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace tasuki {
namespace {

using std::chrono::steady_clock;

// How often a wait that has already taken long looks in the next tenth of a second.
int looks_in_a_tenth() {
  PoliteWait waiting;
  const auto wait_until = [&](steady_clock::time_point end) {
    int looks = 0;
    for (; steady_clock::now() < end; ++looks) waiting.pause();
    return looks;
  };
  for (int i = 0; i < 40; ++i) waiting.pause();  // those that return at once
  wait_until(steady_clock::now() + std::chrono::milliseconds(50));
  return wait_until(steady_clock::now() + std::chrono::milliseconds(100));
}

// A sleep takes at least its time, so these limits hold under any load. Sleeps grow to it in fewer
// than ten looks.
TEST(PoliteWait, LooksLessOftenIfNobodyIsInAHurry) {
  EXPECT_LE(looks_in_a_tenth(), 100'000 / 200 + 10);
  {
    const UnhurriedWaits outer;
    { const UnhurriedWaits inner; }
    EXPECT_LE(looks_in_a_tenth(), 100 / 2 + 10);
  }
  EXPECT_LE(looks_in_a_tenth(), 100'000 / 200 + 10);
}

}  // namespace
}  // namespace tasuki
