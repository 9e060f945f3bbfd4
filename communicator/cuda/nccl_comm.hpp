// NcclComm: one rank's membership in an NCCL communicator.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "communicator/bytes.hpp"
#include "communicator/communicator.hpp"
#include "communicator/gpu/nccl_failure.hpp"
#include "core/error.hpp"

namespace tasuki {

// Time limits for NCCL.
struct NcclLimits {
  // For a call. The slowest legitimate call makes the first connections of many nodes. NCCL or
  // mpirun detect sooner that a rank has ended.
  std::chrono::milliseconds call{300'000};
  // For the other ranks to finish using a communicator that is being destroyed.
  std::chrono::milliseconds farewell{10'000};
  // For aborting a communicator.
  std::chrono::milliseconds abort{2'000};
};

// The communicator is non-blocking, which NCCL's fault tolerance requires, so that a call that
// waits for other ranks can be abandoned. A failure, in a call or reported by NCCL later, aborts
// the communicator: kernels that wait for lost ranks end, the host stops waiting for them, and
// every later call throws the same error. Thread-safe.
//
// Recordings (CUDA graphs) that hold exchanges must be destroyed first: NCCL waits for them before
// it frees anything, so otherwise destruction takes as long as NcclLimits allow.
class NcclComm {
 public:
  // Collective among the ranks with this id. `device` must be the calling thread's current one.
  NcclComm(const Bytes& id, int rank, int ranks, Device device, const NcclLimits& limits = {});
  // Collective: waits until the other ranks have finished using it, up to NcclLimits::farewell.
  // Aborts the communicator instead if an exception is being thrown.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Calls a function of NCCL and returns when NCCL has accepted the operation. `operation` is the
  // function's name, for errors.
  void call(const char* operation, const std::function<ncclResult_t(ncclComm_t)>& function);
  // Throws an error that NCCL has found since the last call, on this rank or another. With
  // `skip_if_busy`, does nothing during a call, which checks for errors itself.
  void check_async(bool skip_if_busy = false);

  // Registers memory, so that NCCL exchanges from it without intermediate copies. Not an error if
  // NCCL cannot use that. Call it once for each address, and forget_memory() before the memory is
  // freed.
  void register_memory(void* begin, std::size_t bytes);
  void forget_memory(void* begin);

 private:
  // With the mutex held:
  void settle(const char* operation, ncclResult_t result);
  [[noreturn]] void give_up(const char* operation, ncclResult_t result);
  void abort() noexcept;
  bool finalize() noexcept;

  NcclLimits limits_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;          // nullptr after an abort
  NcclFailure place_;                  // this rank, for errors
  std::optional<Error> failure_;       // the reason for the abort
  std::map<void*, void*> registered_;  // NCCL's handles by address
};

// Throws if `result`, of a call of NCCL without a communicator, is a failure.
void check_nccl(ncclResult_t result, const char* operation);

}  // namespace tasuki
