#include "core/activity.hpp"

#include <array>
#include <utility>

namespace tasuki {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// In the order of Phase.
constexpr std::array phase_names = {"running the program's own code",
                                    "reading and handing out data",
                                    "loading a batch",
                                    "computing",
                                    "evaluating",
                                    "in an extension of the trainer",
                                    "writing a snapshot",
                                    "reading a snapshot"};
// In the order of Waiting.
constexpr std::array waiting_names = {"nothing",
                                      "create_communicator",
                                      "split",
                                      "allocate",
                                      "barrier",
                                      "sum_gradients",
                                      "bcast_data",
                                      "allreduce",
                                      "reduce",
                                      "reduce_scatter",
                                      "bcast",
                                      "gather",
                                      "allgather",
                                      "alltoall",
                                      "scatter",
                                      "send to",
                                      "recv from",
                                      "the GPU",
                                      "the end of the other ranks' programs",
                                      "MPI_Finalize"};
static_assert(phase_names.size() == static_cast<std::size_t>(Phase::restoring) + 1);
static_assert(waiting_names.size() == static_cast<std::size_t>(Waiting::mpi_finalize) + 1);

// The record of a process without a watchdog.
ActivityRecord unread;
std::atomic<ActivityRecord*> current = &unread;
[[gnu::tls_model("initial-exec")]] thread_local bool is_publishing_thread = false;
[[gnu::tls_model("initial-exec")]] thread_local bool is_counted = true;

ActivityRecord& own_record() {
  return *current.load(relaxed);
}

}  // namespace

const char* name_of(Phase phase) {
  return phase_names.at(static_cast<std::size_t>(phase));
}

const char* name_of(Waiting kind) {
  return waiting_names.at(static_cast<std::size_t>(kind));
}

Activity ActivityRecord::read() const {
  return {phase_.load(relaxed),   epoch_.load(relaxed),        iteration_.load(relaxed),
          waiting_.load(relaxed), communicator_.load(relaxed), number_.load(relaxed),
          bytes_.load(relaxed),   moves_.load(relaxed),        beats_.load(relaxed)};
}

void ActivityRecord::write(const Activity& activity) {
  phase_.store(activity.phase, relaxed);
  epoch_.store(activity.epoch, relaxed);
  iteration_.store(activity.iteration, relaxed);
  waiting_.store(activity.waiting, relaxed);
}

ActivityRecord* publish_activity_in(ActivityRecord* record) {
  ActivityRecord* const next = record != nullptr ? record : &unread;
  ActivityRecord* const before = current.load(relaxed);
  next->write(before->read());
  current.store(next);
  is_publishing_thread = true;
  return before;
}

void report_progress() {
  if (is_counted) ActivityRecord::count(own_record().moves_);
}

UncountedProgress::UncountedProgress() : before_(std::exchange(is_counted, false)) {}

UncountedProgress::~UncountedProgress() {
  is_counted = before_;
}

bool counts_progress() {
  return is_counted;
}

void report_life() {
  ActivityRecord::count(own_record().beats_);
}

void report_position(std::int64_t epoch, std::int64_t iteration) {
  own_record().epoch_.store(epoch, relaxed);
  own_record().iteration_.store(iteration, relaxed);
  report_progress();
}

PhaseScope::PhaseScope(Phase phase) : before_(own_record().phase_.load(relaxed)) {
  if (is_publishing_thread) {
    own_record().phase_.store(phase, relaxed);
    trace_.emplace(name_of(phase), TraceRow::phases);
  }
  report_progress();
}

PhaseScope::~PhaseScope() {
  if (is_publishing_thread) own_record().phase_.store(before_, relaxed);
  report_progress();
}

WaitScope::WaitScope(Waiting kind, std::uint64_t communicator, std::int64_t number,
                     std::int64_t bytes)
    : counts_(is_publishing_thread && own_record().waiting_.load(relaxed) == Waiting::nothing) {
  ActivityRecord& own = own_record();
  if (counts_) {
    own.communicator_.store(communicator, relaxed);
    own.number_.store(number, relaxed);
    own.bytes_.store(bytes, relaxed);
    own.waiting_.store(kind, relaxed);
    trace_.emplace(name_of(kind), TraceRow::waits, number, bytes);
  }
  report_progress();
}

WaitScope::WaitScope(Waiting kind, std::uint64_t communicator,
                     std::atomic<std::int64_t>& operations, std::int64_t bytes)
    : WaitScope(kind, communicator, operations.load(relaxed) + 1, bytes) {
  if (counts_) operations.store(operations.load(relaxed) + 1, relaxed);
}

WaitScope::~WaitScope() {
  if (counts_) own_record().waiting_.store(Waiting::nothing, relaxed);
  report_progress();
}

}  // namespace tasuki
