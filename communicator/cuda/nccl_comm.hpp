// NcclComm: one rank's membership in an NCCL communicator.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/communicator/gpu/nccl_failure.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki {

// How long NCCL may take.
struct NcclLimits {
  // For a call. The slowest that is sound: the first connections of many nodes. A rank that has
  // ended is found sooner, by NCCL or by mpirun.
  std::chrono::milliseconds call{300'000};
  // For the others to be done with a communicator that is destroyed.
  std::chrono::milliseconds farewell{10'000};
  // For giving one up.
  std::chrono::milliseconds abort{2'000};
};

// Non-blocking (NCCL's fault tolerance needs that), so that a call that waits for other ranks can
// be given up. A failure, found in a call or reported by NCCL later, aborts the communicator:
// kernels that wait for lost ranks end, and so does the host's waiting for them; every later call
// throws the same error again. Thread-safe.
//
// Recordings (CUDA graphs) that hold exchanges should go first: NCCL waits for them before it gives
// back anything, so that the farewell, and giving up, then take as long as NcclLimits lets them.
class NcclComm {
 public:
  // Collective among the ranks with this id; the device must be the calling thread's current one.
  NcclComm(const Bytes& id, int rank, int ranks, Device device, const NcclLimits& limits = {});
  // Collective as well: waits until the others, too, are done with it, for some seconds at most.
  // While an error goes through the program it is aborted instead.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Asks NCCL for something and returns when NCCL has taken it over. `operation` is the function's
  // name, for errors.
  void call(const char* operation, const std::function<ncclResult_t(ncclComm_t)>& function);
  // An error that NCCL has met since, of this rank or of another. With `skip_if_busy` not while a
  // call is under way, which looks itself.
  void check_async(bool skip_if_busy = false);

  // Registers memory for exchanges without copies between buffers; NCCL may have no use for it,
  // which is no error. Once for each address; forget() before the memory is freed.
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
  ncclComm_t comm_ = nullptr;          // nullptr once it was aborted
  NcclFailure place_;                  // this rank, for errors
  std::optional<Error> failure_;       // the one that it was aborted for
  std::map<void*, void*> registered_;  // NCCL's handles by address
};

// Checks a call of NCCL that belongs to no communicator.
void check_nccl(ncclResult_t result, const char* operation);

}  // namespace tasuki
