// Reference-counted memory of one device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tensor/device.hpp"

namespace tasuki {

// Owns a block of bytes and knows how to free it. Tensors share it.
class Storage {
 public:
  using Release = std::function<void(void* data, std::size_t bytes)>;

  Storage(void* data, std::size_t bytes, Device device, Release release)
      : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}
  ~Storage() {
    if (release_) release_(data_, bytes_);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  Release release_;
};

// Host memory aligned to 64 bytes, from a pool that keeps freed blocks for the next batch (training
// requests the same sizes again and again, and each fresh page costs a fault). Contents are
// undefined. Thread-safe. Throws OutOfMemory if there is not enough; for large blocks before they
// are touched (tensor/host_memory.hpp).
std::shared_ptr<Storage> allocate_host(std::size_t bytes);
// Host memory that is zero at first and of which only pages that are written take memory, outside
// the pool. `expected`: the bytes that will be. Throws OutOfMemory if there are not as many.
std::shared_ptr<Storage> allocate_sparse_host(std::size_t bytes, std::size_t expected);
// Bytes of the pool in use, and the most it ever held.
struct HostPoolStatistics {
  std::size_t in_use = 0, peak = 0, cached = 0;
};
HostPoolStatistics host_pool_statistics();
// Frees the pool's cached blocks; false if there are none.
bool give_back_cached_host_memory();
// The most bytes in use at once since the last reset.
std::size_t host_pool_peak();
void reset_host_pool_peak();

}  // namespace tasuki
