// What this process is doing, kept where other processes of the machine can read it: the watchdog
// (job/watchdog.hpp) tells from it who stands still.
//
// Publishing is a few plain stores: nobody is woken, no clock is read, nothing is sent.
#pragma once

#include <atomic>
#include <cstdint>

namespace tasuki {

// What the main thread is at.
enum class Phase : std::uint8_t {
  own_work,  // of the program: everything that is not listed here
  reading_data,
  loading,
  computing,
  evaluating,
  extension,
  saving,
  restoring,
};

// What the main thread waits for inside it: other ranks, or its GPU.
enum class Waiting : std::uint8_t {
  nothing,
  create_communicator,
  split,
  allocate,
  barrier,
  sum_gradients,
  exchange,  // that runs in the background
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
  program_end,  // of the other ranks
  mpi_finalize,
};

struct Activity {
  Phase phase = Phase::own_work;
  std::int64_t epoch = -1, iteration = -1;  // under way, counted from 1; -1 outside of a training
  Waiting waiting = Waiting::nothing;
  std::uint64_t communicator = 0;  // MpiCommunicator's id; 0: none
  // How many operations the communicator has begun; of send and recv the other rank (-1: any).
  std::int64_t number = 0;
  std::int64_t bytes = 0;
  // Changes whenever something moves: an operation begins or ends, a batch is read, a layer done.
  std::uint64_t moves = 0;
  // Changes while the process runs at all (its watchdog counts).
  std::uint64_t beats = 0;
};

// An Activity that one process writes and others read at any time. Values that belong together may
// be read apart; of a process that stands still they are right. Zeroed memory is a valid record.
class ActivityRecord {
 public:
  Activity read() const;

 private:
  friend class PhaseScope;
  friend class WaitScope;
  friend void report_progress();
  friend void report_life();
  friend void report_position(std::int64_t epoch, std::int64_t iteration);
  friend void publish_activity_in(ActivityRecord* record);
  void write(const Activity& activity);
  // From several threads at once: counts may get lost, changes do not.
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

// From now on this process publishes in `record` (nullptr: where nobody reads), which must outlive
// that, and the calling thread is the one whose phases and waits count.
void publish_activity_in(ActivityRecord* record);

// Something moved: for whatever may take minutes, so that it is not taken for standing still. From
// any thread; a plain store.
void report_progress();
// The process runs.
void report_life();
// A training begins this epoch and iteration, counted from 1.
void report_position(std::int64_t epoch, std::int64_t iteration);

// What the publishing thread does until the end of the scope; in other threads nothing.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase before_;
};

// What the publishing thread waits for until the end of the scope. Of nested ones the outermost
// counts; in other threads they are progress, no more. So numbers of operations are alike on ranks
// that do the same.
class WaitScope {
 public:
  explicit WaitScope(Waiting kind, std::uint64_t communicator = 0, std::int64_t number = 0,
                     std::int64_t bytes = 0);
  // The next operation of a communicator: counts it in `operations`.
  WaitScope(Waiting kind, std::uint64_t communicator, std::atomic<std::int64_t>& operations,
            std::int64_t bytes);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  bool counts_;
};

}  // namespace tasuki
