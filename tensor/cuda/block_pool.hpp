// A caching allocator: takes large segments from a device, cuts them into blocks, and joins
// neighbours again when they are free. Allocating and freeing in training then never reaches the
// driver, which would wait for the device.
//
// A block may be reused immediately after it was released, so all work on a pool's blocks is queued
// in one order (one stream); code that uses a block on another stream makes that stream wait first.
// Only Source touches the device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace tasuki {

class BlockPool {
 public:
  // The source of segments.
  struct Source {
    std::function<void*(std::size_t bytes)> take;  // nullptr: not enough memory left
    std::function<void(void* segment)> give_back;
  };
  struct Statistics {
    std::size_t in_use = 0;    // bytes of allocated blocks
    std::size_t reserved = 0;  // bytes of segments
    std::size_t peak = 0;      // largest in_use since the last reset_peak()
  };

  // Whether unused segments may be freed before the pool is destroyed. Not if work that will be
  // repeated writes to them, whatever they hold by then.
  enum class Segments { returned, kept };

  explicit BlockPool(Source source, Segments segments = Segments::returned)
      : source_(std::move(source)), segments_(segments) {}
  // Frees all segments.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // At least `bytes` bytes at a multiple of 512; nullptr if the source has no more, even after
  // unused segments were freed (if they may be). Thread-safe, like all members.
  void* acquire(std::size_t bytes);
  void release(void* block) noexcept;
  // Frees unused segments, if they may be freed.
  void trim();
  Statistics statistics() const;
  void reset_peak();

 private:
  // A part of a segment; neighbours in it are linked.
  struct Block {
    std::byte* address;
    std::size_t bytes;
    bool is_small;  // of a segment for small blocks
    bool is_free;
    Block* before;
    Block* after;
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : std::less<>()(a->address, b->address);
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;

  FreeBlocks& free_blocks(bool is_small) { return is_small ? small_ : large_; }
  Block* take_free(std::size_t bytes, bool is_small);
  Block* take_segment(std::size_t bytes, bool is_small);
  void cut(Block* block, std::size_t bytes);
  static void absorb_next(Block* block);
  void trim_locked();

  Source source_;
  Segments segments_;
  mutable std::mutex mutex_;
  FreeBlocks small_, large_;
  std::unordered_map<void*, Block*> in_use_;
  Statistics statistics_;
};

}  // namespace tasuki
