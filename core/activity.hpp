// Activity: what this process is doing, published for other processes of the machine. The watchdog
// (job/watchdog.hpp) uses it to find stalls.
//
// Publishing takes a few plain stores: no system call, no clock, no message.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/trace.hpp"

namespace tasuki {

// The part of the program in which the main thread is.
enum class Phase : std::uint8_t {
  own_work,  // the program's own code: everything not listed here
  reading_data,
  loading,
  computing,
  evaluating,
  extension,
  saving,
  restoring,
};

// What the main thread waits for in that phase: other ranks, or its GPU.
enum class Waiting : std::uint8_t {
  nothing,
  create_communicator,
  split,
  allocate,
  barrier,
  sum_gradients,
  bcast_data,
  allreduce,
  reduce,
  reduce_scatter,
  bcast,
  gather,
  allgather,
  alltoall,
  scatter,
  send,
  recv,
  gpu,
  program_end,  // for the other ranks
  mpi_finalize,
};

// "computing", "sum_gradients"
const char* name_of(Phase phase);
const char* name_of(Waiting kind);

struct Activity {
  Phase phase = Phase::own_work;
  std::int64_t epoch = -1, iteration = -1;  // current, counted from 1; -1: no training runs
  Waiting waiting = Waiting::nothing;
  std::uint64_t communicator = 0;  // the Communicator's id; 0: none
  // The number of operations that the communicator has begun; for send and recv, the other rank's
  // number in the job (-1: any rank).
  std::int64_t number = 0;
  std::int64_t bytes = 0;
  // Changes with any progress: an operation begins or ends, a batch is read, a layer is computed.
  std::uint64_t moves = 0;
  // Changes as long as the process runs; its watchdog counts.
  std::uint64_t beats = 0;
};

// An Activity that one process writes and others read at any time. A reader may see some values
// from before a change and some from after it, but only while the process makes progress. Zeroed
// memory is a valid record.
class ActivityRecord {
 public:
  Activity read() const;

 private:
  friend class PhaseScope;
  friend class WaitScope;
  friend void report_progress();
  friend void report_life();
  friend void report_position(std::int64_t epoch, std::int64_t iteration);
  friend ActivityRecord* publish_activity_in(ActivityRecord* record);
  void write(const Activity& activity);
  // Several threads may count at once. Counts may get lost, but the value changes.
  static void count(std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  alignas(64) std::atomic<std::uint64_t> moves_{0};
  std::atomic<std::uint64_t> communicator_{0};
  std::atomic<std::int64_t> number_{0}, bytes_{0}, epoch_{-1}, iteration_{-1};
  std::atomic<Phase> phase_{Phase::own_work};
  std::atomic<Waiting> waiting_{Waiting::nothing};
  alignas(64) std::atomic<std::uint64_t> beats_{0};
};

// Makes this process publish in `record` from now on (nullptr: nowhere); the phases and waits of
// the calling thread count. The record must exist until the next call. Returns the previous record.
ActivityRecord* publish_activity_in(ActivityRecord* record);

// Reports progress. Work that may take minutes calls it, or the watchdog would see a stall. May be
// called from any thread; costs a plain store.
void report_progress();
// Reports that the process runs; called by its watchdog.
void report_life();
// Reports that training begins this epoch and iteration, counted from 1.
void report_position(std::int64_t epoch, std::int64_t iteration);

// RAII: the publishing thread is in this phase until the end of the scope. Other threads only
// report progress.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase before_;
  std::optional<TraceScope> trace_;
};

// RAII: the publishing thread waits for this until the end of the scope. Nested scopes and other
// threads' scopes only report progress, so that ranks that do the same count the same operations.
class WaitScope {
 public:
  explicit WaitScope(Waiting kind, std::uint64_t communicator = 0, std::int64_t number = 0,
                     std::int64_t bytes = 0);
  // For the next operation of a communicator, which is counted in `operations`.
  WaitScope(Waiting kind, std::uint64_t communicator, std::atomic<std::int64_t>& operations,
            std::int64_t bytes);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  bool counts_;
  std::optional<TraceScope> trace_;
};

// RAII: background work that must not count as progress. Nothing that this thread reports counts,
// because it would hide stalls of the main thread, which does not wait for it.
class UncountedProgress {
 public:
  UncountedProgress();
  ~UncountedProgress();
  UncountedProgress(const UncountedProgress&) = delete;
  UncountedProgress& operator=(const UncountedProgress&) = delete;

 private:
  bool before_;
};
// Whether this thread's progress counts.
bool counts_progress();

}  // namespace tasuki
