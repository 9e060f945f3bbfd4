// Sums of a rank's shards: few arrays, the order of the tree, and the same bits for any threads.
#include "optimizer/shard_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "tensor/tree_product.hpp"

namespace tasuki {
namespace {

// As by adding up arrays, whichever shards have values.
TEST(ShardSumsOfARank, AreProductsInTheSameOrder) {
  const ShardTree tree(12);
  for (const Range node : {Range{0, 8}, Range{8, 12}, Range{0, 12}, Range{3, 4}})
    for (unsigned present = 1; present < 1U << node.size(); ++present) {
      const Tensor result = Tensor::zeros({1});
      ShardSums sums(
          tree, {node}, [&](std::size_t) { return result; }, 1);
      std::vector<std::int64_t> shards;
      std::vector<float> ones;
      for (std::int64_t shard = node.begin; shard < node.end; ++shard) {
        const bool has_values = ((present >> (shard - node.begin)) & 1) != 0;
        if (has_values) {
          shards.push_back(shard);
          ones.push_back(1.0F / static_cast<float>(3 + 7 * shard));
          sums.next().fill(static_cast<double>(ones.back()));
        }
        sums.add(has_values);
      }
      sums.finish([](const Tensor&) { FAIL() << "some shards have values"; });
      const std::vector<int> merges = tree.merges_within(node, shards);
      const float one = 1;
      std::vector<TreeProduct> products;
      for (std::size_t i = 0; i < shards.size(); ++i)
        products.push_back({&ones[i], &one, 1, merges[i]});
      float found = 0;
      multiply_in_tree(products, 1, 1, &found);
      ASSERT_EQ(found, result.data<float>()[0]) << present;
    }
}

// A shard's values are where its sum will be, or in one of a few further arrays.
TEST(ShardSumsOfARank, NeedFewArrays) {
  const ShardTree tree(24);
  std::vector<Tensor> results;
  for (int i = 0; i < 2; ++i) results.push_back(Tensor::zeros({16}));
  for (const Range own : {Range{0, 24}, Range{0, 12}, Range{12, 24}, Range{3, 6}}) {
    ShardSums sums(
        tree, tree.roots_of(own), [&](std::size_t i) { return results.at(i); }, 16);
    std::map<const void*, int> arrays;
    for (std::int64_t shard = own.begin; shard < own.end; ++shard) {
      ++arrays[sums.next().raw()];
      sums.next().fill(static_cast<double>(1 << (shard % 20)));
      sums.add(true);
    }
    sums.finish([](const Tensor&) { FAIL() << "all shards have values"; });
    EXPECT_LE(arrays.size(), 5U);
    const std::vector<Range> roots = tree.roots_of(own);
    EXPECT_EQ(arrays.size(), roots.size() + spare_arrays(tree, roots));
    double expected = 0;
    for (std::int64_t shard = own.begin; shard < own.end; ++shard) expected += 1 << (shard % 20);
    double found = results[0].data<float>()[0];
    if (tree.roots_of(own).size() == 2) found += results[1].data<float>()[0];
    EXPECT_EQ(found, expected);
  }
}

TEST(ShardSumsOfARank, LeaveOutShardsWithoutValues) {
  const ShardTree tree(8);
  const Tensor result = Tensor::zeros({3});
  for (unsigned present = 0; present < 256; ++present) {
    ShardSums sums(
        tree, {{0, 8}}, [&](std::size_t) { return result; }, 2);
    int expected = 0;
    bool is_clear = false;
    for (int shard = 0; shard < 8; ++shard) {
      const bool has_values = ((present >> shard) & 1) != 0;
      if (has_values) sums.next().fill(1 << shard);
      if (has_values) expected += 1 << shard;
      sums.add(has_values);
    }
    sums.finish([&](const Tensor& root) {
      is_clear = true;
      root.fill(255);
    });
    EXPECT_EQ(is_clear, present == 0);
    EXPECT_EQ(result.data<float>()[1], static_cast<float>(present == 0 ? 255 : expected));
  }
}

// However shards are divided among threads, the sum has the same bits.
TEST(ThreadSumsOfARank, HaveTheBitsOfOneThread) {
  const ShardTree tree(24);
  constexpr std::int64_t count = 40;
  const auto value = [](std::int64_t shard, std::int64_t i) {
    return 1.0F / static_cast<float>(3 + shard * count + i);
  };
  // Half of the shards have values; with `none`, none has.
  const auto sum_of = [&](Range own, std::size_t threads, bool none) {
    std::vector<Tensor> results;
    const std::vector<Range> roots = tree.roots_of(own);
    for (std::size_t i = 0; i < roots.size(); ++i) results.push_back(Tensor::zeros({count}));
    ThreadSums sums(
        tree, roots, [&](std::size_t i) { return results.at(i); }, count, threads);
    EXPECT_EQ(sums.shards(), own);
    for (int step = 0; step < 2; ++step) {
      sums.begin();
      EXPECT_FALSE(sums.has_begun());
      for (std::int64_t shard = own.begin; shard < own.end; ++shard) {
        ShardSums& of_thread = sums.of(sums.thread_of(shard));
        const bool has_values = !none && shard % 5 < 3;
        if (has_values)
          for (std::int64_t i = 0; i < count; ++i)
            of_thread.next().data<float>()[i] = value(shard, i);
        of_thread.add(has_values);
      }
      sums.finish([](const Tensor& root) { root.fill(-0.0); },
                  [](const ApplyRange& apply, std::int64_t all) {
                    apply(0, 16);
                    apply(16, all);
                  });
    }
    std::vector<float> found;
    for (const Tensor& result : results)
      found.insert(found.end(), result.span<float>().begin(), result.span<float>().end());
    return found;
  };
  for (const Range own : {Range{0, 24}, Range{0, 12}, Range{6, 12}, Range{8, 11}})
    for (const std::size_t threads : {2, 3}) {
      EXPECT_EQ(sum_of(own, threads, false), sum_of(own, 1, false));
      for (const float each : sum_of(own, threads, true)) {
        EXPECT_EQ(each, 0);
        EXPECT_TRUE(std::signbit(each));
      }
    }
  EXPECT_EQ(spare_arrays(tree, tree.roots_of({0, 24}), 1),
            spare_arrays(tree, tree.roots_of({0, 24})));
  // Shards 0 to 11 and 12 to 23: [0, 8) [8, 12) [12, 16) [16, 24), of which the first is the root.
  EXPECT_EQ(spare_arrays(tree, tree.roots_of({0, 24}), 2), 3U + 3 + 3);
}

}  // namespace
}  // namespace tasuki
