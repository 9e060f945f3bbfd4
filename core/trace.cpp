#include "core/trace.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "core/log.hpp"

namespace tasuki {
namespace {

std::atomic<bool> tracing = false;
std::atomic<void (*)(const char*)> push = nullptr;
std::atomic<void (*)()> pop = nullptr;

struct Record {
  std::mutex mutex;
  std::vector<TraceEvent> events;
  std::vector<const void*> owners;  // of lanes
  std::int64_t most = 0;
  bool is_full = false;
};

Record& record() {
  static Record instance;
  return instance;
}

}  // namespace

double trace_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void start_trace(std::int64_t most_events) {
  const std::scoped_lock lock(record().mutex);
  record().events.clear();
  record().owners.clear();
  record().is_full = false;
  record().most = most_events;
  tracing = true;
}

std::vector<TraceEvent> end_trace() {
  tracing = false;
  const std::scoped_lock lock(record().mutex);
  return std::exchange(record().events, {});
}

std::int32_t trace_lane(const void* owner) {
  const std::scoped_lock lock(record().mutex);
  auto& owners = record().owners;
  const auto found = std::ranges::find(owners, owner);
  const auto lane = static_cast<std::int32_t>(found - owners.begin());
  if (found == owners.end()) owners.push_back(owner);
  return lane;
}

std::int32_t trace_lane_of_thread() {
  static thread_local const char thread = 0;
  return trace_lane(&thread);
}

bool is_tracing() {
  return tracing.load(std::memory_order_relaxed);
}

void trace(const TraceEvent& event) {
  if (!is_tracing()) return;
  const std::scoped_lock lock(record().mutex);
  Record& all = record();
  if (std::ssize(all.events) < all.most) {
    all.events.push_back(event);
  } else if (!std::exchange(all.is_full, true)) {
    log_warning("the timeline has {} events; later ones are left out", all.most);
  }
}

TraceScope::TraceScope(const char* name, TraceRow row, std::int64_t number, std::int64_t bytes)
    : event_{.name = name, .row = row, .number = number, .bytes = bytes},
      is_recorded_(is_tracing()) {
  if (const auto call = push.load(std::memory_order_relaxed)) call(name);
  if (is_recorded_) event_.begin = trace_clock();
}

TraceScope::~TraceScope() {
  if (const auto call = pop.load(std::memory_order_relaxed)) call();
  if (!is_recorded_) return;
  event_.end = trace_clock();
  trace(event_);
}

void set_scope_listener(ScopeListener listener) {
  push = listener.push;
  pop = listener.pop;
}

}  // namespace tasuki
