#include "fake_nccl.hpp"

#include <unistd.h>

// Opaque in nccl.h.
struct ncclComm {
  int turns_left = 0;  // in progress
};

namespace tasuki::testing {
namespace {

ncclComm the_only_one;

// A call has begun.
ncclResult_t begin() {
  the_only_one.turns_left = fake_nccl().turns_in_progress;
  return fake_nccl().answer;
}

}  // namespace

FakeNccl& fake_nccl() {
  static auto* const fake = new FakeNccl;  // the monitor's thread asks until the process ends
  return *fake;
}

}  // namespace tasuki::testing

using tasuki::testing::fake_nccl;

extern "C" {

const char* ncclGetLastError(ncclComm_t) {
  return fake_nccl().last_error.c_str();
}
const char* ncclGetErrorString(ncclResult_t) {
  return "as the test says";
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
  *comm = &tasuki::testing::the_only_one;
  return tasuki::testing::begin();
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const bool is_busy = comm->turns_left != 0;
  if (comm->turns_left > 0) --comm->turns_left;
  *state = is_busy ? ncclInProgress : fake_nccl().state.load();
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  return tasuki::testing::begin();
}
ncclResult_t ncclCommRegister(ncclComm_t, void*, size_t, void** handle) {
  *handle = &fake_nccl();
  ++fake_nccl().registered;
  return tasuki::testing::begin();
}
ncclResult_t ncclCommDeregister(ncclComm_t, void*) {
  ++fake_nccl().deregistered;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  ++fake_nccl().finalized;
  return tasuki::testing::begin();
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  ++fake_nccl().destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  ++fake_nccl().aborted;
  while (fake_nccl().abort_hangs) pause();
  return ncclSuccess;
}

}  // extern "C"
