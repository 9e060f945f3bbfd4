// SharedCounter, SharedBarrier: synchronisation between processes through shared memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace tasuki {

// A number that only grows (modulo 2^32); one process sets it and others wait for it. Zeroed memory
// is a counter at 0. A wait spins for some microseconds, then yields, then sleeps on a futex, so
// that waiting ranks leave the cores to working ones.
class SharedCounter {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // A process that sees the new value also sees everything written before.
  void set(std::uint32_t value);
  void wait_for(std::uint32_t value);
  bool has_reached(std::uint32_t value) const {
    return static_cast<std::int32_t>(this->value() - value) >= 0;
  }

 private:
  std::atomic<std::uint32_t> value_{0}, sleepers_{0};
};

// A barrier for `size` processes; zeroed memory is a barrier ready for use. Everything written
// before it is visible to all processes after it.
class SharedBarrier {
 public:
  void wait(std::uint32_t size) { generation_.wait_for(arrive(size)); }
  // wait() in two parts, for a process that does something else meanwhile: all processes have
  // arrived when has_passed() returns true for the value that arrive() returned.
  std::uint32_t arrive(std::uint32_t size);
  bool has_passed(std::uint32_t generation) const { return generation_.has_reached(generation); }

 private:
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) SharedCounter generation_;
};

}  // namespace tasuki
