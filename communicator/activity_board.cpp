#include "tasuki/communicator/activity_board.hpp"

#include <deque>

#include "tasuki/communicator/mpi.hpp"
#include "tasuki/core/log.hpp"

namespace tasuki {

namespace {

// Reachable for ever, so that no leak is found where none is.
template <class T>
T& kept() {
  static auto* const all = new std::deque<T>;
  return all->emplace_back();
}

}  // namespace

ActivityBoard::ActivityBoard() : records_(kept<Records>()) {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  try {
    if (node.size() > 1) records_.shared = share_memory(sizeof(ActivityRecord), node.get());
  } catch (const Error& error) {  // on all ranks of the node
    log_verbose("{}", error.what());
  }
  if (records_.shared.empty()) {
    ranks_ = {rank};
    publish_activity_in(&records_.alone);
    return;
  }
  ranks_.resize(records_.shared.size());
  TASUKI_MPI(MPI_Allgather, &rank, 1, MPI_INT, ranks_.data(), 1, MPI_INT, node.get());
  publish_activity_in(&record(static_cast<std::size_t>(node.rank())));
}

ActivityBoard::~ActivityBoard() {
  publish_activity_in(nullptr);
}

ActivityRecord& ActivityBoard::record(std::size_t place) const {
  if (records_.shared.empty()) return records_.alone;
  return *reinterpret_cast<ActivityRecord*>(records_.shared[place].data());
}

}  // namespace tasuki
