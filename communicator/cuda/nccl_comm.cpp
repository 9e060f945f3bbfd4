#include "communicator/cuda/nccl_comm.hpp"

#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "communicator/cuda/nccl_monitor.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/polite_wait.hpp"

namespace tasuki {
namespace {

using clock = std::chrono::steady_clock;

bool is_fine(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

// The state of a communicator once it is no longer busy; ncclInProgress if it still is after
// `limit`.
ncclResult_t wait_while_busy(ncclComm_t comm, std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  PoliteWait waiting;
  for (;;) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) return asked;
    if (state != ncclInProgress || clock::now() > end) return state;
    waiting.pause();
  }
}

}  // namespace

void check_nccl(ncclResult_t result, const char* operation) {
  if (result == ncclSuccess) return;
  NcclFailure failure;
  failure.code = result;
  failure.operation = operation;
  failure.host = host_name();
  failure.gpu = "no GPU yet";
  failure.last_error = ncclGetLastError(nullptr);
  throw Error(ErrorKind::io, describe(failure));
}

NcclComm::NcclComm(const Bytes& id, int rank, int ranks, Device device, const NcclLimits& limits)
    : limits_(limits) {
  place_.rank = rank;
  place_.ranks = ranks;
  place_.host = host_name();
  place_.gpu = device.text();
  ncclUniqueId unique;
  TASUKI_CHECK(id.size() == sizeof(unique), "an NCCL id of {} bytes, expected {}", id.size(),
               sizeof(unique));
  std::memcpy(&unique, id.data(), sizeof(unique));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::lock_guard lock(mutex_);
  constexpr const char* operation = "ncclCommInitRankConfig";
  const ncclResult_t result = ncclCommInitRankConfig(&comm_, ranks, unique, rank, &config);
  settle(operation, result);
  NcclMonitor::instance().add(*this);
}

NcclComm::~NcclComm() {
  NcclMonitor::instance().remove(*this);
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  // Ranks that left because of an error would never take part in ncclCommFinalize.
  if (std::uncaught_exceptions() > 0 || !finalize()) abort();
}

bool NcclComm::finalize() noexcept {
  for (const auto& [begin, handle] : registered_)
    if (handle != nullptr) static_cast<void>(ncclCommDeregister(comm_, handle));
  registered_.clear();
  if (!is_fine(ncclCommFinalize(comm_))) return false;
  if (wait_while_busy(comm_, limits_.farewell) != ncclSuccess) return false;
  static_cast<void>(ncclCommDestroy(comm_));
  comm_ = nullptr;
  return true;
}

// NCCL first ends its kernels. What it does then may wait without limit, for example for recordings
// that hold exchanges to be destroyed, which the failing program still owns.
void NcclComm::abort() noexcept {
  registered_.clear();
  ncclComm_t const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  try {
    std::packaged_task<void()> aborting([comm] { static_cast<void>(ncclCommAbort(comm)); });
    const std::future<void> done = aborting.get_future();
    std::thread(std::move(aborting)).detach();
    done.wait_for(limits_.abort);
  } catch (const std::exception&) {
    // No thread can be started. The end of the process ends the kernels, too.
  }
}

void NcclComm::call(const char* operation,
                    const std::function<ncclResult_t(ncclComm_t)>& function) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) give_up(operation, ncclInvalidUsage);
  settle(operation, function(comm_));
}

void NcclComm::settle(const char* operation, ncclResult_t result) {
  if (!is_fine(result)) give_up(operation, result);
  // The operation is on the stream only when NCCL says so.
  result = comm_ == nullptr ? ncclInternalError : wait_while_busy(comm_, limits_.call);
  if (result != ncclSuccess) give_up(operation, result);
}

void NcclComm::check_async(bool skip_if_busy) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!skip_if_busy) lock.lock();
  if ((skip_if_busy && !lock.try_lock()) || comm_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (!is_fine(asked)) give_up("ncclCommGetAsyncError", asked);
  if (!is_fine(state)) give_up("an exchange by NCCL", state);
}

void NcclComm::give_up(const char* operation, ncclResult_t result) {
  if (failure_) throw *failure_;
  NcclFailure failure = place_;
  failure.code = result;
  failure.operation = operation;
  const bool is_late = result == ncclInProgress;
  failure.last_error = is_late ? fmt::format("no answer from the other ranks in {:.3g} seconds",
                                             std::chrono::duration<double>(limits_.call).count())
                               : ncclGetLastError(comm_);
  failure_.emplace(is_late ? ErrorKind::hang : ErrorKind::io, describe(failure));
  abort();
  throw *failure_;
}

void NcclComm::register_memory(void* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || registered_.contains(begin)) return;
  void* handle = nullptr;
  const ncclResult_t result = ncclCommRegister(comm_, begin, bytes, &handle);
  if (is_fine(result)) {
    settle("ncclCommRegister", result);
  } else {
    log_verbose("NCCL does not register {} bytes: {}", bytes, ncclGetErrorString(result));
    handle = nullptr;
  }
  registered_.emplace(begin, handle);
}

void NcclComm::forget_memory(void* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = registered_.find(begin);
  if (found == registered_.end()) return;
  if (comm_ != nullptr && found->second != nullptr)
    static_cast<void>(ncclCommDeregister(comm_, found->second));
  registered_.erase(found);
}

}  // namespace tasuki
