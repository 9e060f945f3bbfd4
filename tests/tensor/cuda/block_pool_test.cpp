// The caching allocator on a source made for the test: no GPU is needed.
#include "tensor/cuda/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace tasuki {
namespace {

constexpr std::size_t mib = 1 << 20;

// A device of `capacity` bytes that counts what is taken from it.
struct FakeDevice {
  std::size_t capacity = 1000 * mib, taken = 0;
  int segments = 0, calls = 0;
  std::map<void*, std::size_t> sizes;

  BlockPool::Source source() {
    return {[this](std::size_t bytes) -> void* {
              ++calls;
              if (taken + bytes > capacity) return nullptr;
              // Nobody touches the memory, so addresses are enough.
              void* const segment = std::aligned_alloc(4096, bytes);
              sizes[segment] = bytes;
              taken += bytes;
              ++segments;
              return segment;
            },
            [this](void* segment) {
              taken -= sizes.at(segment);
              sizes.erase(segment);
              --segments;
              std::free(segment);
            }};
  }
};

TEST(BlockPool, ReusesBlocksWithoutDeviceCalls) {
  FakeDevice device;
  BlockPool pool(device.source());
  void* const first = pool.acquire(5 * mib);
  pool.release(first);
  const int calls = device.calls;
  EXPECT_EQ(pool.acquire(5 * mib), first);
  EXPECT_EQ(device.calls, calls);
}

TEST(BlockPool, SplitsSegmentsAndMergesNeighbours) {
  FakeDevice device;
  BlockPool pool(device.source());
  void* const a = pool.acquire(6 * mib);
  void* const b = pool.acquire(6 * mib);
  void* const c = pool.acquire(6 * mib);
  EXPECT_EQ(device.segments, 1);  // 20 MiB hold them all
  EXPECT_EQ(static_cast<std::byte*>(b) - static_cast<std::byte*>(a), 6 * mib);
  for (void* block : {a, c, b}) pool.release(block);  // the last one joins both sides
  EXPECT_EQ(pool.acquire(20 * mib), a);
  EXPECT_EQ(device.segments, 1);
}

TEST(BlockPool, KeepsSmallAndLargeBlocksApart) {
  FakeDevice device;
  BlockPool pool(device.source());
  pool.acquire(100);
  pool.acquire(30 * mib);
  pool.acquire(100);
  EXPECT_EQ(device.segments, 2);
  EXPECT_EQ(device.taken, 32 * mib);
}

TEST(BlockPool, AlignsBlocksAndAcceptsEmptyRequests) {
  FakeDevice device;
  BlockPool pool(device.source());
  std::vector<void*> blocks;
  for (const std::size_t bytes : {0, 1, 511, 512, 513, 100000})
    blocks.push_back(pool.acquire(bytes));
  for (void* block : blocks) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 512, 0U);
  std::ranges::sort(blocks);
  EXPECT_EQ(std::ranges::adjacent_find(blocks), blocks.end());
}

TEST(BlockPool, ReleasesCachedSegmentsBeforeFailing) {
  FakeDevice device;
  device.capacity = 100 * mib;
  BlockPool pool(device.source());
  pool.release(pool.acquire(60 * mib));
  EXPECT_EQ(pool.statistics().reserved, 60 * mib);
  void* const larger = pool.acquire(80 * mib);
  EXPECT_NE(larger, nullptr);
  EXPECT_EQ(pool.acquire(40 * mib), nullptr);
  EXPECT_EQ(pool.statistics().in_use, 80 * mib);
  EXPECT_EQ(pool.acquire(SIZE_MAX), nullptr);
}

// Recorded work writes to the pool's memory long after its blocks were released.
TEST(BlockPool, KeepsSegmentsOnRequest) {
  FakeDevice device;
  device.capacity = 100 * mib;
  {
    BlockPool pool(device.source(), BlockPool::Segments::kept);
    void* const block = pool.acquire(60 * mib);
    pool.release(block);
    EXPECT_EQ(pool.acquire(80 * mib), nullptr);
    pool.trim();
    EXPECT_EQ(pool.statistics().reserved, 60 * mib);
    EXPECT_EQ(pool.acquire(60 * mib), block);
    pool.release(block);
  }
  EXPECT_EQ(device.segments, 0);
}

TEST(BlockPool, UpdatesStatistics) {
  FakeDevice device;
  {
    BlockPool pool(device.source());
    void* const a = pool.acquire(3 * mib);
    void* const b = pool.acquire(1000);
    EXPECT_EQ(pool.statistics().in_use, 3 * mib + 1024);
    pool.release(a);
    EXPECT_EQ(pool.statistics().in_use, 1024U);
    EXPECT_EQ(pool.statistics().peak, 3 * mib + 1024);
    EXPECT_EQ(pool.statistics().reserved, device.taken);
    pool.release(b);
    pool.trim();
    EXPECT_EQ(pool.statistics().reserved, 0U);
    EXPECT_EQ(device.segments, 0);
    pool.release(pool.acquire(1));
  }
  EXPECT_EQ(device.segments, 0);  // the pool gives back what it holds
}

TEST(BlockPool, NeverOverlapsBlocks) {
  FakeDevice device;
  BlockPool pool(device.source());
  std::mt19937 random(1);
  std::map<std::byte*, std::size_t> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() > 60 || (!live.empty() && random() % 2 == 0)) {
      auto at = live.begin();
      std::advance(at, random() % live.size());
      pool.release(at->first);
      live.erase(at);
      continue;
    }
    const std::size_t bytes = random() % (std::size_t{1} << (8 + random() % 16));
    auto* const block = static_cast<std::byte*>(pool.acquire(bytes));
    ASSERT_NE(block, nullptr);
    const auto after = live.lower_bound(block);
    if (after != live.end()) {
      ASSERT_LE(block + bytes, after->first);
    }
    if (after != live.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second, block);
    }
    live[block] = std::max<std::size_t>(bytes, 1);
  }
  for (const auto& [block, bytes] : live) pool.release(block);
  pool.trim();
  EXPECT_EQ(device.segments, 0);
}

}  // namespace
}  // namespace tasuki
