// Memory of a GPU from which NCCL exchanges without copies of its own.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tasuki/communicator/cuda/nccl_comm.hpp"
#include "tasuki/tensor/storage.hpp"

namespace tasuki {

// Remembers what it allocated, and registers it with communicators that exchange from it. Storages
// may outlive it and the communicators.
class NcclMemory : public std::enable_shared_from_this<NcclMemory> {
 public:
  // From ncclMemAlloc; from the backend where NCCL has none to give. Contents are undefined.
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device);

  // Registers the block that holds `address`, if there is one, with a communicator that was added.
  void use(NcclComm& comm, const void* address);
  void add(NcclComm& comm);
  void remove(NcclComm& comm);

 private:
  void release(void* begin, Device device);

  std::mutex mutex_;
  std::map<std::byte*, std::size_t> blocks_;  // bytes by first address
  std::vector<NcclComm*> comms_;
};

}  // namespace tasuki
