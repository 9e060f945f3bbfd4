// Which rank owns which part of an arena.
#include "optimizer/arena_slices.hpp"

#include <gtest/gtest.h>

#include "tensor/update_operations.hpp"

namespace tasuki {
namespace {

using Slices = std::vector<Range>;

TEST(ArenaSlices, CoverTheArenaWithoutGaps) {
  for (const std::int64_t count :
       {0L, 16L, norm_block, norm_block + 16, 5 * norm_block, 1'795'072L})
    for (const int owners : {1, 2, 3, 4, 7, 64}) {
      const Slices slices = arena_slices(count, owners);
      ASSERT_EQ(slices.size(), static_cast<std::size_t>(owners));
      std::int64_t end = 0;
      for (const Range& slice : slices) {
        EXPECT_EQ(slice.begin, end);
        EXPECT_GE(slice.size(), 0);
        end = slice.end;
      }
      EXPECT_EQ(end, count);
    }
}
TEST(ArenaSlices, EndWhereNormBlocksEnd) {
  for (const int owners : {2, 3, 5})
    for (const Range& slice : arena_slices(11 * norm_block + 48, owners))
      if (slice.end != 11 * norm_block + 48) {
        EXPECT_EQ(slice.end % norm_block, 0);
      }
}
TEST(ArenaSlices, DifferByAtMostOneBlock) {
  EXPECT_EQ(arena_slices(5 * norm_block, 3), (Slices{{0, 2 * norm_block},
                                                     {2 * norm_block, 4 * norm_block},
                                                     {4 * norm_block, 5 * norm_block}}));
}
TEST(ArenaSlices, AreEmptyForMoreOwnersThanBlocks) {
  EXPECT_EQ(arena_slices(norm_block + 16, 4), (Slices{{0, norm_block},
                                                      {norm_block, norm_block + 16},
                                                      {norm_block + 16, norm_block + 16},
                                                      {norm_block + 16, norm_block + 16}}));
}

// Nodes of three ranks and one, and of two and one with ranks dealt in turn.
TEST(ArenaSlices, AreDividedAmongEachGroupsOwners) {
  const Slices of_three = arena_slices(7 * norm_block, 3), of_two = arena_slices(7 * norm_block, 2);
  const Range all{0, 7 * norm_block};
  EXPECT_EQ(slices_of_groups(7 * norm_block, std::vector<std::int64_t>{0, 0, 0, 1}),
            (Slices{of_three[0], of_three[1], of_three[2], all}));
  EXPECT_EQ(slices_of_groups(7 * norm_block, std::vector<std::int64_t>{0, 1, 0}),
            (Slices{of_two[0], all, of_two[1]}));
}

TEST(SliceOwners, SingleOwnerHasEverything) {
  const SliceOwners alone(100);
  EXPECT_FALSE(alone.are_several());
  EXPECT_EQ(alone.own(), (Range{0, 100}));
}

}  // namespace
}  // namespace tasuki
