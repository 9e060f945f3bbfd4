// Numbers that are not finite in sums of gradients, found while the sums are computed.
#include <gtest/gtest.h>

#include <limits>

#include "communicator/sum_search.hpp"
#include "communicator_fixture.hpp"

namespace tasuki {
namespace {

class SearchedSums : public EveryCommunicator {
 protected:
  void SetUp() override {
    EveryCommunicator::SetUp();
    search_ = dynamic_cast<SumSearch*>(comm_.get());
  }
  bool can_search() const { return search_ != nullptr && search_->can_search_sums(); }

  // Whether something is found in the sum of these values.
  bool finds(const GradientView& gradients) const {
    search_->begin_search();
    comm_->sum_gradients(gradients);
    return search_->end_search();
  }
  SumSearch* search_ = nullptr;
};

TEST_P(SearchedSums, RunOnOneNode) {
  const bool works_in_shared_memory = GetParam() != "naive" && GetParam() != "flat";
  EXPECT_EQ(can_search(), works_in_shared_memory && size() > 1 && comm_->inter_size() == 1);
}

// A sum that overflows, and one of a number that is not finite, wherever they stand.
TEST_P(SearchedSums, FindNonFiniteValues) {
  if (!can_search()) return;
  constexpr std::int64_t count = 200'000;  // several pieces of memory that is not shared
  const float most = std::numeric_limits<float>::max();
  for (const bool is_shared : {true, false}) {
    const Tensor array = is_shared ? allocated(count) : Tensor::empty({count});
    for (const std::int64_t place : {std::int64_t{0}, count / 2 - 1, count / 2, count - 1}) {
      array.fill(1);
      EXPECT_FALSE(finds({.arena = array}));
      array.fill(1);
      if (rank() == size() - 1)
        array.data<float>()[place] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(finds({.arena = array})) << place;
      array.fill(1);
      array.data<float>()[place] = most;
      EXPECT_TRUE(finds({.arena = array})) << place;
    }
  }
}

// Where each rank needs a part, and what follows the parts is for all.
TEST_P(SearchedSums, CoverPartsOfRanks) {
  if (!can_search()) return;
  constexpr std::int64_t of_rank = 4096, behind = 16;
  std::vector<Range> needed;
  for (std::int64_t each = 0; each < size(); ++each)
    needed.push_back({each * of_rank, (each + 1) * of_rank});
  const Tensor array = allocated(of_rank * size() + behind);
  for (const std::int64_t place : {std::int64_t{5}, of_rank * size() - 1, of_rank * size() + 3}) {
    array.fill(1);
    EXPECT_FALSE(finds({.arena = array, .needed = needed}));
    array.fill(1);
    if (rank() == 0) array.data<float>()[place] = -std::numeric_limits<float>::infinity();
    EXPECT_TRUE(finds({.arena = array, .needed = needed})) << place;
  }
}

TEST_P(SearchedSums, CoverOnlySumsBetweenBeginAndEnd) {
  if (!can_search()) return;
  const Tensor bad = allocated(100), good = allocated(100);
  bad.fill(std::numeric_limits<double>::infinity());
  comm_->sum_gradients({.arena = bad});
  good.fill(1);
  EXPECT_FALSE(finds({.arena = good}));
  EXPECT_TRUE(finds({.arena = bad}));
  search_->begin_search();
  EXPECT_FALSE(search_->end_search());
}

// A fast rank is in the next search while a slow one has not ended this one.
TEST_P(SearchedSums, StaySeparateInQuickSuccession) {
  if (!can_search()) return;
  const Tensor array = allocated(64 * size());
  for (int turn = 0; turn < 2000; ++turn) {
    const bool is_bad = turn % 3 == 0;
    array.fill(1);
    if (is_bad && rank() == turn % size())
      array.data<float>()[turn % array.count()] = std::numeric_limits<float>::infinity();
    ASSERT_EQ(finds({.arena = array}), is_bad) << turn;
  }
}

TASUKI_FOR_EVERY_COMMUNICATOR(SearchedSums);

}  // namespace
}  // namespace tasuki
