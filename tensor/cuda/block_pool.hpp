// A caching allocator: takes large segments from a device, cuts them into blocks, and joins
// neighbours again when they are free. Allocating and freeing in training then never reaches the
// driver, which would wait for the device.
//
// A block may be handed out again at once after it was released, so all work on a pool's blocks is
// queued in one order (one stream); whoever uses a block elsewhere lets that stream wait first.
// Nothing here touches the device but Source.
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
  // Where segments come from.
  struct Source {
    std::function<void*(std::size_t bytes)> take;  // nullptr: there is not so much left
    std::function<void(void* segment)> give_back;
  };
  struct Statistics {
    std::size_t in_use = 0;    // bytes of blocks handed out
    std::size_t reserved = 0;  // bytes of segments
    std::size_t peak = 0;      // most that was in use since the last reset_peak()
  };

  // Whether segments of which nothing is in use may go back before the pool does. Not when work
  // that will be repeated writes to them whatever is handed out by then.
  enum class Segments { returned, kept };

  explicit BlockPool(Source source, Segments segments = Segments::returned)
      : source_(std::move(source)), segments_(segments) {}
  // Gives all segments back.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // At least `bytes` bytes at a multiple of 512; nullptr when the source has no more, even after
  // the unused segments went back to it, where they may. Thread-safe, as all members.
  void* acquire(std::size_t bytes);
  void release(void* block) noexcept;
  // Gives back segments of which nothing is in use, where they may go.
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
