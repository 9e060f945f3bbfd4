#include "tasuki/communicator/activity_board.hpp"

#include "tasuki/communicator/mpi.hpp"
#include "tasuki/core/log.hpp"

namespace tasuki {

ActivityBoard::ActivityBoard() {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  try {
    if (node.size() > 1) memory_ = share_memory(sizeof(ActivityRecord), node.get());
  } catch (const Error& error) {  // on all ranks of the node
    log_verbose("{}", error.what());
  }
  if (memory_.empty()) {
    ranks_ = {rank};
    publish_activity_in(&alone_);
    return;
  }
  ranks_.resize(memory_.size());
  TASUKI_MPI(MPI_Allgather, &rank, 1, MPI_INT, ranks_.data(), 1, MPI_INT, node.get());
  publish_activity_in(&record(static_cast<std::size_t>(node.rank())));
}

ActivityBoard::~ActivityBoard() {
  publish_activity_in(nullptr);
}

ActivityRecord& ActivityBoard::record(std::size_t place) const {
  if (memory_.empty()) return const_cast<ActivityRecord&>(alone_);
  return *reinterpret_cast<ActivityRecord*>(memory_[place].data());
}

}  // namespace tasuki
