#include "job/activity_board.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "core/keep_until_exit.hpp"
#include "core/log.hpp"

namespace tasuki {

namespace {

// Process numbers are comparable only within one PID namespace.
std::vector<pid_t> processes_of(const MpiComm& node) {
  struct Process {
    ino_t space = 0;
    pid_t number = 0;
  };
  struct stat space {};
  Process own;
  own.number = getpid();
  if (stat("/proc/self/ns/pid", &space) == 0) own.space = space.st_ino;
  std::vector<Process> all(static_cast<std::size_t>(node.size()));
  TASUKI_MPI(MPI_Allgather, &own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE,
             node.get());
  std::vector<pid_t> numbers;
  numbers.reserve(all.size());
  for (const Process& each : all) numbers.push_back(each.space == own.space ? each.number : 0);
  return numbers;
}

}  // namespace

ActivityBoard::ActivityBoard(const MpiComm& job) : records_(keep_until_exit<Records>()) {
  const int rank = job.rank();
  const MpiComm node = MpiComm::split_by_memory(job.get());
  try {
    if (node.size() > 1) records_.shared = share_memory(sizeof(ActivityRecord), node.get());
  } catch (const Error& error) {  // on all ranks of the node
    log_verbose("{}", error.what());
  }
  if (records_.shared.empty()) {
    ranks_ = {rank};
    processes_ = {getpid()};
    publish_activity_in(&records_.alone);
    return;
  }
  ranks_.resize(records_.shared.size());
  TASUKI_MPI(MPI_Allgather, &rank, 1, MPI_INT, ranks_.data(), 1, MPI_INT, node.get());
  processes_ = processes_of(node);
  publish_activity_in(&record(static_cast<std::size_t>(node.rank())));
}

void ActivityBoard::leave() {
  if (std::exchange(has_left_, true)) return;
  const WaitScope gone(Waiting::mpi_finalize);
  publish_activity_in(nullptr);
}

ActivityRecord& ActivityBoard::record(std::size_t place) const {
  if (records_.shared.empty()) return records_.alone;
  return *reinterpret_cast<ActivityRecord*>(records_.shared[place].data());
}

}  // namespace tasuki
