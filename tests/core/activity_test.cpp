// Whose progress counts.
#include "core/activity.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "core/background_thread.hpp"
#include "core/long_call.hpp"

namespace tasuki {
namespace {

using Progress = BackgroundThread::Progress;

class ActivityTest : public ::testing::Test {
 protected:
  ActivityTest() { publish_activity_in(&record); }
  ~ActivityTest() override { publish_activity_in(nullptr); }
  // Whether the process seems to move while a background thread does this.
  bool moves(Progress progress, const std::function<void()>& work) {
    const std::uint64_t before = record.read().moves;
    BackgroundThread(progress).start(work).get();
    return record.read().moves != before;
  }

  ActivityRecord record;
};

TEST_F(ActivityTest, CountsAwaitedThreads) {
  const auto report = [] { report_progress(); };
  const auto wait = [] { const WaitScope waiting(Waiting::allgather); };
  const auto save = [] { const PhaseScope saving(Phase::saving); };
  for (const std::function<void()>& work : {std::function<void()>(report), {wait}, {save}}) {
    EXPECT_TRUE(moves(Progress::counts, work));
    EXPECT_FALSE(moves(Progress::does_not_count, work));
  }
}

TEST_F(ActivityTest, CountsLongCallsOfAwaitedThreads) {
  const auto call = [] {
    const LongCall calling;
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  };
  EXPECT_TRUE(moves(Progress::counts, call));
  EXPECT_FALSE(moves(Progress::does_not_count, call));
}

TEST_F(ActivityTest, CountsAgainAfterTheScope) {
  const std::uint64_t before = record.read().moves;
  {
    const UncountedProgress outer;
    { const UncountedProgress inner; }
    report_progress();
    EXPECT_FALSE(counts_progress());
  }
  EXPECT_EQ(record.read().moves, before);
  report_progress();
  EXPECT_NE(record.read().moves, before);
}

}  // namespace
}  // namespace tasuki
