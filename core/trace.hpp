// Trace: records what the threads of this process do and when, for a timeline
// (training/extensions/trace_file.hpp writes it).
//
// Before start_trace() nothing is recorded, and a scope costs one load. Phases, waits
// (core/activity.hpp) and the parts of a step record themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tasuki {

// An event's row in the timeline. Events of one row and lane are disjoint or nested.
enum class TraceRow : std::int32_t {
  phases,     // Phase
  waits,      // Waiting
  gradients,  // the moments in which ranges of gradients are complete
  exchange,   // of ranges, by a thread or in slices
  step,       // StepPart; a lane for each clock of the process
  blocks,     // of a model (nn/recompute.hpp); a lane for each thread
};

struct TraceEvent {
  const char* name = "";  // exists as long as the process
  TraceRow row = TraceRow::phases;
  double begin = 0, end = 0;  // seconds by trace_clock(); the same: a moment
  std::int64_t number = -1;   // of the gradient range, the operation or the block; -1: none
  std::int64_t bytes = -1;    // -1: none
  std::int32_t lane = 0;
};

// Seconds by the clock of traces and step times: std::chrono::steady_clock.
double trace_clock();

// Records events from now on, up to `most_events`, and warns once when there are more; forgets
// earlier ones.
void start_trace(std::int64_t most_events = 1'000'000);
// Ends the recording and returns the events of all threads. The strings of the process stay valid.
std::vector<TraceEvent> end_trace();
bool is_tracing();
// A number for each object, from 0 on, in the order of first calls.
std::int32_t trace_lane(const void* owner);
// The calling thread's.
std::int32_t trace_lane_of_thread();
// From any thread. Does nothing unless a trace is recorded.
void trace(const TraceEvent& event);

// RAII: an event from its construction to its destruction.
class TraceScope {
 public:
  TraceScope(const char* name, TraceRow row, std::int64_t number = -1, std::int64_t bytes = -1);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceEvent event_;
  bool is_recorded_;
};

// Called at the beginning and end of each scope of a thread (a profiler's ranges); both may be
// null.
struct ScopeListener {
  void (*push)(const char* name) = nullptr;
  void (*pop)() = nullptr;
};
void set_scope_listener(ScopeListener listener);

}  // namespace tasuki
