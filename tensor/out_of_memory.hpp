// OutOfMemory: a device has less memory than was requested.
#pragma once

#include <cstddef>

#include "core/error.hpp"
#include "tensor/device.hpp"

namespace tasuki {

// Kind unavailable. The figures (bytes) are for programs that search for the largest batch that
// fits.
class OutOfMemory : public Error {
 public:
  struct Figures {
    Device device;
    std::size_t requested = 0;
    std::size_t free = 0, total = 0;  // of the device, reported by its driver or the kernel
    std::size_t in_use = 0;           // by tensors of this process
    std::size_t reserved = 0;         // by this process's pool, including memory in use
  };

  explicit OutOfMemory(const Figures& figures);
  ~OutOfMemory() override;

  const Figures& figures() const noexcept { return figures_; }

 private:
  Figures figures_;
};

}  // namespace tasuki
