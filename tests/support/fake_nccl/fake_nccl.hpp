// An NCCL whose behaviour a test sets, so that communicator/cuda/nccl_comm.cpp can be tested
// without a GPU.
#pragma once

#include <nccl.h>

#include <atomic>
#include <string>

namespace tasuki::testing {

struct FakeNccl {
  // What every function of a communicator returns, and what ncclCommGetAsyncError then finds: as
  // many times ncclInProgress, without end when negative, then `state`.
  std::atomic<ncclResult_t> answer{ncclInProgress};
  std::atomic<int> turns_in_progress{0};
  std::atomic<ncclResult_t> state{ncclSuccess};
  std::string last_error;
  // ncclCommAbort does not return, as while a recording that holds an exchange exists.
  std::atomic<bool> abort_hangs{false};

  std::atomic<int> aborted{0}, finalized{0}, destroyed{0}, registered{0}, deregistered{0};
};

// The one of this process.
FakeNccl& fake_nccl();

}  // namespace tasuki::testing
