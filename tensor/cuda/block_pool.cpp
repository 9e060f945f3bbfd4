#include "tensor/cuda/block_pool.hpp"

#include <algorithm>
#include <cstdint>

#include "core/error.hpp"

namespace tasuki {
namespace {

constexpr std::size_t kib = 1024, mib = 1024 * kib;
constexpr std::size_t granule = 512;              // sizes and addresses of blocks
constexpr std::size_t largest_small = mib;        // blocks up to this come from separate segments,
constexpr std::size_t small_segment = 2 * mib;    // so that they never separate large ones
constexpr std::size_t largest_medium = 10 * mib;  // up to this size, segments hold several blocks
constexpr std::size_t medium_segment = 20 * mib;
constexpr std::size_t segment_granule = 2 * mib;  // unit in which drivers map memory

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::size_t segment_bytes(std::size_t bytes) {
  if (bytes <= largest_small) return small_segment;
  if (bytes <= largest_medium) return medium_segment;
  return round_up(bytes, segment_granule);
}

// A smaller remainder stays with its block.
std::size_t least_rest(bool is_small) {
  return is_small ? granule : largest_small;
}

}  // namespace

BlockPool::~BlockPool() {
  trim_locked();
  // Blocks in use still belong to tensors.
}

void* BlockPool::acquire(std::size_t bytes) {
  if (bytes > SIZE_MAX - segment_granule) return nullptr;
  bytes = round_up(std::max(bytes, granule), granule);
  const bool is_small = bytes <= largest_small;
  const std::lock_guard lock(mutex_);
  Block* block = take_free(bytes, is_small);
  if (block == nullptr) block = take_segment(bytes, is_small);
  if (block == nullptr && segments_ == Segments::returned) {
    trim_locked();
    block = take_segment(bytes, is_small);
  }
  if (block == nullptr) return nullptr;
  if (block->bytes - bytes >= least_rest(is_small)) cut(block, bytes);
  block->is_free = false;
  in_use_.emplace(block->address, block);
  statistics_.in_use += block->bytes;
  statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
  return block->address;
}

void BlockPool::release(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = in_use_.find(address);
  if (at == in_use_.end()) return;
  Block* block = at->second;
  in_use_.erase(at);
  statistics_.in_use -= block->bytes;
  block->is_free = true;
  FreeBlocks& blocks = free_blocks(block->is_small);
  if (block->after != nullptr && block->after->is_free) {
    blocks.erase(block->after);
    absorb_next(block);
  }
  if (block->before != nullptr && block->before->is_free) {
    block = block->before;
    blocks.erase(block);
    absorb_next(block);
  }
  blocks.insert(block);
}

void BlockPool::trim() {
  const std::lock_guard lock(mutex_);
  if (segments_ == Segments::returned) trim_locked();
}

BlockPool::Statistics BlockPool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void BlockPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak = statistics_.in_use;
}

// Removes and returns the smallest free block that is large enough.
BlockPool::Block* BlockPool::take_free(std::size_t bytes, bool is_small) {
  FreeBlocks& blocks = free_blocks(is_small);
  Block wanted{nullptr, bytes, is_small, true, nullptr, nullptr};
  const auto at = blocks.lower_bound(&wanted);
  if (at == blocks.end()) return nullptr;
  Block* const found = *at;
  blocks.erase(at);
  return found;
}

BlockPool::Block* BlockPool::take_segment(std::size_t bytes, bool is_small) {
  const std::size_t size = segment_bytes(bytes);
  void* const segment = source_.take(size);
  if (segment == nullptr) return nullptr;
  statistics_.reserved += size;
  return new Block{static_cast<std::byte*>(segment), size, is_small, true, nullptr, nullptr};
}

// Leaves `bytes` in the block and makes the remainder a free block.
void BlockPool::cut(Block* block, std::size_t bytes) {
  auto* const rest = new Block{
      block->address + bytes, block->bytes - bytes, block->is_small, true, block, block->after};
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->bytes = bytes;
  free_blocks(rest->is_small).insert(rest);
}

// Joins a block with the one after it.
void BlockPool::absorb_next(Block* block) {
  const std::unique_ptr<Block> next(block->after);
  block->bytes += next->bytes;
  block->after = next->after;
  if (block->after != nullptr) block->after->before = block;
}

void BlockPool::trim_locked() {
  for (FreeBlocks* blocks : {&small_, &large_}) {
    for (auto at = blocks->begin(); at != blocks->end();) {
      Block* const block = *at;
      if (block->before != nullptr || block->after != nullptr) {
        ++at;
        continue;
      }
      at = blocks->erase(at);
      statistics_.reserved -= block->bytes;
      source_.give_back(block->address);
      delete block;
    }
  }
}

}  // namespace tasuki
