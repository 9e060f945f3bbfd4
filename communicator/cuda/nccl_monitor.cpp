#include "communicator/cuda/nccl_monitor.hpp"

#include <chrono>
#include <thread>

#include "communicator/cuda/nccl_comm.hpp"

namespace tasuki {
namespace {

constexpr std::chrono::milliseconds interval{200};

}  // namespace

NcclMonitor& NcclMonitor::instance() {
  static auto* const monitor = new NcclMonitor;
  return *monitor;
}

NcclMonitor::NcclMonitor() {
  std::thread([this] { run(); }).detach();
}

void NcclMonitor::add(NcclComm& comm) {
  const std::lock_guard lock(mutex_);
  comms_.push_back(&comm);
  changed_.notify_one();
}

void NcclMonitor::remove(NcclComm& comm) {
  const std::lock_guard lock(mutex_);
  std::erase(comms_, &comm);
}

void NcclMonitor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !comms_.empty(); });
    constexpr bool skip_if_busy = true;
    for (NcclComm* const comm : comms_) comm->check_async(skip_if_busy);
    lock.unlock();
    std::this_thread::sleep_for(interval);
    lock.lock();
  }
}

}  // namespace tasuki
