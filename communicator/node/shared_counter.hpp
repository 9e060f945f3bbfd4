// Waiting between processes of a node, on words in shared memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace tasuki {

// A number that only grows (modulo 2^32), which one process sets and others wait for. Zeroed memory
// is a counter at 0. Waits spin for some microseconds, then give way to other ranks, then sleep on
// a futex, so that ranks that wait never keep ranks that work from a core.
class SharedCounter {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // Everything written before is visible to those who see the new value.
  void set(std::uint32_t value);
  void wait_for(std::uint32_t value);

 private:
  bool reached(std::uint32_t value) const {
    return static_cast<std::int32_t>(this->value() - value) >= 0;
  }

  std::atomic<std::uint32_t> value_{0}, sleepers_{0};
};

// A barrier for `size` processes; zeroed memory is one ready for use. What was written before it is
// visible to all after it.
class SharedBarrier {
 public:
  void wait(std::uint32_t size);

 private:
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) SharedCounter generation_;
};

}  // namespace tasuki
