// What threads do when, recorded for a timeline.
#include "core/trace.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "core/activity.hpp"

namespace tasuki {
namespace {

TEST(Trace, RecordsScopesOnlyBetweenStartAndEnd) {
  { const TraceScope before("before", TraceRow::phases); }
  start_trace();
  const double begin = trace_clock();
  {
    const TraceScope outer("outer", TraceRow::phases);
    const TraceScope inner("inner", TraceRow::exchange, 3, 1024);
  }
  const double end = trace_clock();
  const TraceScope across("across", TraceRow::phases);
  const auto events = end_trace();
  { const TraceScope after("after", TraceRow::phases); }
  EXPECT_TRUE(end_trace().empty());

  ASSERT_EQ(events.size(), 2U);
  const TraceEvent &inner = events[0], &outer = events[1];
  EXPECT_EQ(std::string(inner.name), "inner");
  EXPECT_EQ(inner.row, TraceRow::exchange);
  EXPECT_EQ(inner.number, 3);
  EXPECT_EQ(inner.bytes, 1024);
  EXPECT_EQ(std::string(outer.name), "outer");
  EXPECT_LE(begin, outer.begin);
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
  EXPECT_LE(outer.end, end);
}

TEST(Trace, RecordsEventsOfAllThreadsUpToALimit) {
  start_trace(100);
  const auto record = [] {
    for (int i = 0; i < 80; ++i) trace({.name = "one"});
  };
  std::thread other(record);
  record();
  other.join();
  EXPECT_EQ(end_trace().size(), 100U);
  start_trace();
  record();
  EXPECT_EQ(end_trace().size(), 80U);
}

TEST(Trace, NumbersLanesInOwnerOrder) {
  start_trace();
  const int a = 0, b = 0;
  EXPECT_EQ(trace_lane(&a), 0);
  EXPECT_EQ(trace_lane(&b), 1);
  EXPECT_EQ(trace_lane(&a), 0);
  (void)end_trace();
  start_trace();
  EXPECT_EQ(trace_lane(&b), 0);
  (void)end_trace();
}

TEST(Trace, RecordsPhasesAndWaits) {
  publish_activity_in(nullptr);
  start_trace();
  {
    const PhaseScope phase(Phase::saving);
    const WaitScope wait(Waiting::barrier, 7, 12, 99);
    const WaitScope nested(Waiting::bcast);
    // The loader's threads are not part of the timeline.
    std::thread([] { const PhaseScope other(Phase::loading); }).join();
  }
  const auto events = end_trace();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(std::string(events[0].name), "barrier");
  EXPECT_EQ(events[0].row, TraceRow::waits);
  EXPECT_EQ(events[0].number, 12);
  EXPECT_EQ(events[0].bytes, 99);
  EXPECT_EQ(std::string(events[1].name), "writing a snapshot");
  EXPECT_EQ(events[1].row, TraceRow::phases);
}

std::string heard;

TEST(Trace, NotifiesListenersWithoutARecording) {
  set_scope_listener({.push = [](const char* name) { heard += std::string("(") + name; },
                      .pop = [] { heard += ")"; }});
  {
    const TraceScope outer("outer", TraceRow::phases);
    const TraceScope inner("inner", TraceRow::phases);
  }
  set_scope_listener({});
  { const TraceScope unheard("unheard", TraceRow::phases); }
  EXPECT_EQ(heard, "(outer(inner))");
}

}  // namespace
}  // namespace tasuki
