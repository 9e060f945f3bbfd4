#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "tensor/host_memory.hpp"
#include "tensor/storage.hpp"

namespace tasuki {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

// Rounded up so that blocks of nearly the same size are interchangeable: eight classes per
// doubling, hence at most 12.5 % more than requested.
std::size_t size_class(std::size_t bytes) {
  bytes = std::max(bytes, alignment);
  const std::size_t step = std::max(std::bit_floor(bytes) / 8, alignment);
  return (bytes + step - 1) / step * step;
}

bool is_large(std::size_t bytes) {
  return bytes >= 2 * huge_page;
}

// Large blocks are mapped one by one, because malloc would keep much of what is freed.
void* map_block(std::size_t bytes) {
  require_host_memory(bytes);
  const std::size_t length = bytes + huge_page;
  void* const mapped =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw out_of_host_memory(bytes);
  // The parts before and after the part that begins with a huge page.
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before =
      (huge_page - std::bit_cast<std::uintptr_t>(mapped) % huge_page) % huge_page;
  std::byte* const block = begin + before;
  if (before > 0) ::munmap(begin, before);
  ::munmap(block + bytes, huge_page - before);
  ::madvise(block, bytes, MADV_HUGEPAGE);  // advice only; failure does no harm
  return block;
}

void* take_from_system(std::size_t bytes) {
  if (is_large(bytes)) return map_block(bytes);
  void* const block =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw out_of_host_memory(bytes);
  return block;
}

void give_to_system(void* block, std::size_t bytes) noexcept {
  if (is_large(bytes))
    ::munmap(block, bytes);
  else
    std::free(block);
}

class HostPool {
 public:
  // Never destroyed: tensors with static lifetime may outlast any order of destruction.
  static HostPool& instance() {
    static HostPool* const pool = new HostPool;
    return *pool;
  }

  void* acquire(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto& blocks = free_[bytes];
      if (!blocks.empty()) {
        void* const block = blocks.back();
        blocks.pop_back();
        statistics_.cached -= bytes;
        count(bytes);
        return block;
      }
      trim(bytes);
    }
    // A refused request is not counted.
    void* const block = take_or_give_back_first(bytes);
    const std::lock_guard lock(mutex_);
    count(bytes);
    return block;
  }

  void release(void* block, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_.in_use -= bytes;
    try {
      free_[bytes].push_back(block);
      statistics_.cached += bytes;
    } catch (const std::bad_alloc&) {  // no memory to keep track of it
      give_to_system(block, bytes);
    }
  }

  HostPoolStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  std::size_t most_since_reset() {
    const std::lock_guard lock(mutex_);
    return most_since_reset_;
  }
  void reset_most() {
    const std::lock_guard lock(mutex_);
    most_since_reset_ = statistics_.in_use;
  }

  bool give_back_all() {
    const std::lock_guard lock(mutex_);
    const bool has_any = statistics_.cached > 0;
    give_back_above(0);
    return has_any;
  }

 private:
  // Cached blocks of other sizes may occupy the memory.
  void* take_or_give_back_first(std::size_t bytes) {
    try {
      return take_from_system(bytes);
    } catch (const OutOfMemory&) {
      if (!give_back_all()) throw;
    }
    return take_from_system(bytes);
  }

  void count(std::size_t bytes) {
    statistics_.in_use += bytes;
    statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
    most_since_reset_ = std::max(most_since_reset_, statistics_.in_use);
  }

  // Frees cached blocks if the pool, with a new block of `bytes`, holds notably more than was ever
  // in use at once; the margin prevents phases with different sizes from causing page faults in
  // turn.
  void trim(std::size_t bytes) {
    constexpr std::size_t least_margin = std::size_t{16} << 20;  // for small models
    const std::size_t margin = statistics_.peak / 4 + least_margin;
    const std::size_t most = std::max(statistics_.peak, statistics_.in_use + bytes) + margin;
    give_back_above(most - bytes);
  }

  // Large blocks first, until the pool holds no more than `limit`.
  void give_back_above(std::size_t limit) {
    for (auto size = free_.rbegin(); size != free_.rend(); ++size) {
      while (!size->second.empty() && statistics_.in_use + statistics_.cached > limit) {
        give_to_system(size->second.back(), size->first);
        size->second.pop_back();
        statistics_.cached -= size->first;
      }
    }
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
  HostPoolStatistics statistics_;
  std::size_t most_since_reset_ = 0;
};

}  // namespace

std::shared_ptr<Storage> allocate_host(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  HostPool& pool = HostPool::instance();
  void* const block = pool.acquire(size);
  spoil_unwritten(block, size);
  return std::make_shared<Storage>(
      block, size, Device::cpu(),
      [&pool](void* data, std::size_t held) { pool.release(data, held); });
}

std::shared_ptr<Storage> allocate_sparse_host(std::size_t bytes, std::size_t expected) {
  require_host_memory(expected);
  const std::size_t length = std::max<std::size_t>(bytes, 1);
  void* const mapped = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw out_of_host_memory(bytes);
  return std::make_shared<Storage>(mapped, bytes, Device::cpu(),
                                   [length](void* data, std::size_t) { ::munmap(data, length); });
}

std::size_t host_pool_peak() {
  return HostPool::instance().most_since_reset();
}
void reset_host_pool_peak() {
  HostPool::instance().reset_most();
}

bool give_back_cached_host_memory() {
  return HostPool::instance().give_back_all();
}

HostPoolStatistics host_pool_statistics() {
  return HostPool::instance().statistics();
}

}  // namespace tasuki
