#include "communicator/cuda/nccl_memory.hpp"

#include "core/log.hpp"
#include "tensor/backend.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/postponed_release.hpp"

namespace tasuki {

std::shared_ptr<Storage> NcclMemory::allocate(std::size_t bytes, Device device) {
  CudaContext::of(device);  // makes it the current one
  void* data = nullptr;
  if (bytes == 0 || ncclMemAlloc(&data, bytes) != ncclSuccess) {
    cudaGetLastError();  // clears the error
    log_verbose("NCCL does not allocate {} bytes; memory of the backend is used", bytes);
    return backend(device).allocate(bytes, device);
  }
  {
    const std::lock_guard lock(mutex_);
    blocks_.emplace(static_cast<std::byte*>(data), bytes);
  }
  return std::make_shared<Storage>(
      data, bytes, device, [self = shared_from_this(), device](void* begin, std::size_t /*bytes*/) {
        release_when_idle([self, begin, device] { self->release(begin, device); });
      });
}

void NcclMemory::release(void* begin, Device device) {
  const std::lock_guard lock(mutex_);
  for (NcclComm* const comm : comms_) comm->forget_memory(begin);
  blocks_.erase(static_cast<std::byte*>(begin));
  if (cudaSetDevice(device.index) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return;
  static_cast<void>(ncclMemFree(begin));
}

void NcclMemory::use(NcclComm& comm, const void* address) {
  const std::lock_guard lock(mutex_);
  auto* const place = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  auto after = blocks_.upper_bound(place);
  if (after == blocks_.begin()) return;
  const auto& [begin, bytes] = *--after;
  if (static_cast<std::size_t>(place - begin) < bytes) comm.register_memory(begin, bytes);
}

void NcclMemory::add(NcclComm& comm) {
  const std::lock_guard lock(mutex_);
  comms_.push_back(&comm);
}

void NcclMemory::remove(NcclComm& comm) {
  const std::lock_guard lock(mutex_);
  std::erase(comms_, &comm);
}

}  // namespace tasuki
