// NcclMemory: GPU memory from which NCCL exchanges without intermediate copies.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "communicator/cuda/nccl_comm.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

// Allocates memory and registers it with the communicators that exchange from it. Storages may
// outlive this object and the communicators.
class NcclMemory : public std::enable_shared_from_this<NcclMemory> {
 public:
  // From ncclMemAlloc, or from the backend if that fails. Contents are undefined.
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device);

  // Registers the block that contains `address`, if there is one, with `comm`, which add() has
  // added.
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
