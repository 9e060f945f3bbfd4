// Two ranks with a communicator of NCCL (a made-up one) of which the second fails, while both wait
// for something else and giving the communicator up does not end: as when a rank is lost in the
// middle of a recorded step.
//
//   faulty_exchange async|late|call
//
// async: NCCL reports an error while the program waits for its GPU. late: the others never answer.
// call: NCCL refuses a call.

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "communicator/cuda/nccl_comm.hpp"
#include "job/run_job.hpp"
#include "tests/support/fake_nccl/fake_nccl.hpp"

namespace tasuki {
namespace {

int exchange(int, char** argv) {
  const std::string kind = argv[1];
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  NcclComm comm(Bytes(sizeof(ncclUniqueId)), rank, 2, Device::cuda(rank),
                {.call = std::chrono::milliseconds(300), .abort = std::chrono::milliseconds(300)});
  if (rank == 1) {
    auto& nccl = testing::fake_nccl();
    nccl.abort_hangs = true;
    nccl.last_error = "planted in NCCL";
    if (kind == "async") nccl.state = ncclRemoteError;
    if (kind == "late") nccl.turns_in_progress = -1;
    if (kind == "call") nccl.answer = ncclUnhandledCudaError;
    if (kind != "async")
      comm.call("ncclAllReduce", [](ncclComm_t handle) {
        return ncclAllReduce(nullptr, nullptr, 1, ncclFloat32, ncclSum, handle, nullptr);
      });
  }
  for (;;) pause();
}

}  // namespace
}  // namespace tasuki

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  return tasuki::run_job(argc, argv, tasuki::exchange);
}
