#include "guarded_memory.hpp"

#include <sys/mman.h>

#include <cstring>

#include "core/error.hpp"

namespace tasuki::testing {
namespace {

constexpr std::size_t capacity = std::size_t{1} << 30;  // of addresses
constexpr int nobody_should_read_this = 0xff;           // NaN as float

std::size_t rounded(std::size_t bytes) {
  return (bytes + 511) / 512 * 512;
}

}  // namespace

GuardedMemory& GuardedMemory::instance() {
  static auto* const memory = new GuardedMemory;
  return *memory;
}

GuardedMemory::GuardedMemory() {
  void* const region =
      ::mmap(nullptr, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TASUKI_CHECK(region != MAP_FAILED, "no {} bytes of addresses", capacity);
  begin_ = static_cast<std::byte*>(region);
  // Every operation unlocks and locks all pages that were ever used: 512 times fewer if they are
  // large.
  ::madvise(region, capacity, MADV_HUGEPAGE);
}

void* GuardedMemory::acquire(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = rounded(bytes);
  void* block = nullptr;
  if (const auto found = free_.find(size); found != free_.end()) {
    block = found->second;
    free_.erase(found);
  } else {
    TASUKI_CHECK(used_ + size <= capacity, "out of guarded memory");
    block = begin_ + used_;
    used_ += size;
  }
  const Access access;
  std::memset(block, nobody_should_read_this, size);
  return block;
}

void GuardedMemory::release(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.emplace(rounded(bytes), block);
}

void GuardedMemory::open() {
  mutex_.lock();
  if (accesses_++ == 0) ::mprotect(begin_, capacity, PROT_READ | PROT_WRITE);
}

void GuardedMemory::close() {
  if (--accesses_ == 0) ::mprotect(begin_, capacity, PROT_NONE);
  mutex_.unlock();
}

}  // namespace tasuki::testing
