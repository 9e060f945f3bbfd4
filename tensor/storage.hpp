// Reference-counted memory of one device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tasuki/tensor/device.hpp"

namespace tasuki {

// Owns a block of bytes and knows how to give it back. Tensors share it.
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
// asks for the same sizes again and again, and fresh pages cost a fault each). Contents are
// undefined. Thread-safe. OutOfMemory when there is not enough, large blocks before they are
// touched (tensor/host_memory.hpp).
std::shared_ptr<Storage> allocate_host(std::size_t bytes);
// Bytes that the pool holds in use, and the most it ever held.
struct HostPoolStatistics {
  std::size_t in_use = 0, peak = 0, cached = 0;
};
HostPoolStatistics host_pool_statistics();
// Gives the system what the pool keeps for later; false when that is nothing.
bool give_back_cached_host_memory();
// The most bytes in use at once since the last reset.
std::size_t host_pool_peak();
void reset_host_pool_peak();

}  // namespace tasuki
