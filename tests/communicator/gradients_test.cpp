// The exchange of gradients: blocking, in the background, from allocated and from private memory.
#include <chrono>
#include <numeric>

#include "communicator_fixture.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

// Three parameters of a model, with padding between them as in an arena.
constexpr GradientView::Segment segments[] = {{0, 784}, {784, 10}, {800, 1}};
constexpr std::int64_t arena_count = 816;

class Gradients : public EveryCommunicator {
 protected:
  // Parameter k of rank r has gradient r + k.
  static void fill(const Tensor& arena, int rank) {
    arena.fill(0);
    int k = 0;
    for (const auto& [offset, count] : segments)
      arena.slice(offset, offset + count).fill(rank + k++);
  }
  double sum_of(int k) const { return size() * (size() - 1) / 2.0 + size() * k; }
  static void expect_each(const Tensor& arena, const std::function<double(int)>& wanted) {
    int k = 0;
    for (const auto& [offset, count] : segments) {
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_FLOAT_EQ(arena.data<float>()[offset + i], static_cast<float>(wanted(k)));
      ++k;
    }
    EXPECT_EQ(arena.data<float>()[arena_count - 1], 0) << "padding";
  }
};

TEST_P(Gradients, AreAveragedRepeatedly) {
  for (const Tensor& arena : {allocated(arena_count), Tensor::zeros({arena_count})}) {
    for (int turn = 0; turn < 2; ++turn) {
      fill(arena, rank());
      comm_->mean_gradients({arena, segments});
      expect_each(arena, [&](int k) { return sum_of(k) / size(); });
    }
  }
}

TEST_P(Gradients, AreSummedAndDividedByOtherNumbers) {
  const Tensor arena = allocated(arena_count);
  fill(arena, rank());
  comm_->sum_gradients({arena, segments});
  expect_each(arena, [&](int k) { return sum_of(k); });
  fill(arena, rank());
  comm_->mean_gradients({arena, segments}, 250);
  expect_each(arena, [&](int k) { return sum_of(k) / 250; });
}

// Parameters that some ranks do not use are zeros there.
TEST_P(Gradients, CountAsZeroOnRanksWithoutThem) {
  const Tensor arena = allocated(arena_count);
  arena.fill(0);
  if (rank() % 2 == 0) fill(arena, rank());
  comm_->sum_gradients({arena, segments});
  double sum = 0, even_ranks = 0;
  for (int other = 0; other < size(); other += 2, ++even_ranks) sum += other;
  expect_each(arena, [&](int k) { return sum + even_ranks * k; });
}

// A bucket is a sub-range of the arena with its own segments.
TEST_P(Gradients, BucketsDoNotTouchTheRest) {
  const Tensor arena = allocated(arena_count);
  fill(arena, rank());
  const GradientView::Segment bucket[] = {{0, 10}};
  comm_->sum_gradients({arena.slice(784, 800), bucket});
  EXPECT_EQ(arena.data<float>()[783], rank());
  EXPECT_EQ(arena.data<float>()[784], sum_of(1));
  EXPECT_EQ(arena.data<float>()[800], rank() + 2);
}

// Sums of a range that reach the ranks that need them, and what is behind all parts.
TEST_P(Gradients, ReachTheRanksThatNeedThem) {
  constexpr std::int64_t first = 100, divided = 20'000, count = divided + 16;
  const auto ranks_of_node = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    return std::pair(comm_->topology().ranks_of_node(comm_->topology().node_of[at]).size(),
                     comm_->topology().intra_rank_of[at]);
  };
  std::vector<Range> one_owner, owner_on_each_node, first_rank;
  for (int rank = 0; rank < size(); ++rank) {
    const auto [ranks, number] = ranks_of_node(rank);
    one_owner.push_back(part_of(first + divided, size(), rank));
    owner_on_each_node.push_back(
        part_of(first + divided, static_cast<std::int64_t>(ranks), number));
    first_rank.push_back(rank == 0 ? Range{0, first + divided} : Range{});
  }
  for (const auto& needed : {one_owner, owner_on_each_node, first_rank})
    for (const Tensor& arena : {allocated(count), Tensor::zeros({count})})
      for (const char* how : {"blocking", "thread", "slices"}) {
        const bool is_agreed = std::string(how) != "blocking";
        for (std::int64_t i = 0; i < count; ++i)
          arena.data<float>()[i] = static_cast<float>((i % 1000) * (rank() + 1));
        const GradientView::Segment all{0, count};
        const GradientView view{.arena = arena,
                                .segments = {&all, 1},
                                .first = first,
                                .is_agreed = is_agreed,
                                .needed = needed};
        if (is_agreed)
          comm_
              ->start_sum_gradients(
                  view, std::string(how) == "slices" ? Background::slices : Background::thread)
              ->wait();
        else
          comm_->sum_gradients(view);
        EXPECT_EQ(view.divided(), divided);
        const Range own = view.needed_by(rank());
        for (const Range range : {own, Range{divided, count}})
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            const std::int64_t sum = (i % 1000) * size() * (size() + 1) / 2;
            ASSERT_EQ(arena.data<float>()[i], static_cast<float>(sum)) << how << ", element " << i;
          }
      }
}

TEST_P(Gradients, PartsReachAllRanks) {
  for (const TransferSizes& sizes : {TransferSizes{}, TransferSizes{.mpi_call = 64}}) {
    make_with(sizes);
    constexpr std::int64_t count = 1003;
    std::vector<Range> even, of_the_last;
    for (int rank = 0; rank < size(); ++rank) {
      even.push_back(part_of(1000, size(), rank));
      of_the_last.push_back(rank + 1 == size() ? Range{3, 900} : Range{3, 3});
    }
    for (const auto& parts : {even, of_the_last})
      for (const Tensor& values : {allocated(count), Tensor::zeros({count})}) {
        const Range own = parts[static_cast<std::size_t>(rank())];
        for (std::int64_t i = 0; i < count; ++i)
          values.data<float>()[i] = own.begin <= i && i < own.end ? static_cast<float>(i) : -1;
        comm_->share_parts(values, parts);
        for (const Range& part : parts)
          for (std::int64_t i = part.begin; i < part.end; ++i)
            ASSERT_EQ(values.data<float>()[i], static_cast<float>(i));
        ASSERT_EQ(values.data<float>()[1002], -1);
      }
  }
}

TEST_P(Gradients, BackgroundExchangeIsBitIdentical) {
  make_with({.message_chunk = 1024});
  const std::int64_t count = 30'000;
  const Tensor blocking = allocated(count), background = allocated(count),
               sliced = allocated(count);
  for (const Tensor& arena : {blocking, background, sliced})
    for (std::int64_t i = 0; i < count; ++i)
      arena.data<float>()[i] = 1.0f / static_cast<float>(1 + (i * 37 + rank() * 11) % 1000);
  const std::vector<GradientView::Segment> halves{{0, count / 2}};
  for (int half = 0; half < 2; ++half)
    comm_->sum_gradients({blocking.slice(half * count / 2, (half + 1) * count / 2), halves});

  std::vector<std::unique_ptr<PendingExchange>> pending;
  pending.reserve(2);
  for (int half = 0; half < 2; ++half)
    pending.push_back(comm_->start_sum_gradients(
        {background.slice(half * count / 2, (half + 1) * count / 2), halves}));
  for (const auto& exchange : pending) exchange->wait();
  pending.clear();
  const auto half_of = [&](int half, bool is_agreed) {
    return GradientView{.arena = sliced.slice(half * count / 2, (half + 1) * count / 2),
                        .segments = halves,
                        .is_agreed = is_agreed};
  };
  // The first exchange of a view is that in which ranks agree on it.
  const Tensor before = sliced.clone();
  for (int half = 0; half < 2; ++half) comm_->sum_gradients(half_of(half, false));
  sliced.copy_from(before);
  for (int half = 0; half < 2; ++half)
    pending.push_back(comm_->start_sum_gradients(half_of(half, true), Background::slices));
  for (int turn = 0; turn < 10 * comm_->rank(); ++turn) pending.front()->advance();
  for (const auto& exchange : pending) exchange->wait();
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(background.data<float>()[i], blocking.data<float>()[i]);
    ASSERT_EQ(sliced.data<float>()[i], blocking.data<float>()[i]);
  }
}

// A rank finds its part of the exchange done without having waited for it.
TEST_P(Gradients, SlicesCompleteTheExchange) {
  if (!comm_->supports(Background::slices) || size() == 1)
    GTEST_SKIP() << "this exchange is not done in slices here";
  const Tensor arena = allocated(arena_count);
  comm_->sum_gradients({arena, segments});
  fill(arena, rank());
  const auto exchange = comm_->start_sum_gradients(
      {.arena = arena, .segments = segments, .is_agreed = true}, Background::slices);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto is_summed = [&] { return arena.data<float>()[0] == sum_of(0); };
  while (!is_summed() && std::chrono::steady_clock::now() < end) exchange->advance();
  EXPECT_TRUE(is_summed());
  exchange->wait();
}

// More arrays than a communicator remembers: ranks forget in the same exchange.
TEST_P(Gradients, SumMoreArraysThanAreCached) {
  if (GetParam() != "hierarchical" || comm_->inter_size() == 1)
    GTEST_SKIP() << "only kinds that work inside nodes first remember arrays; one is enough";
  constexpr GradientView::Segment whole[] = {{0, 16}};
  const Tensor kept = allocated(16);
  for (int i = 0; i < 1100; ++i) {
    const Tensor fresh = Tensor::full({16}, 1);
    comm_->sum_gradients({fresh, whole});
    if (i % 100 != 0) continue;
    kept.fill(1);
    comm_->sum_gradients({.arena = kept, .segments = whole, .is_agreed = i > 0});
    ASSERT_EQ(kept.data<float>()[15], size());
  }
}

TEST_P(Gradients, RejectOtherOperationsDuringAnExchange) {
  const Tensor arena = allocated(arena_count);
  {
    const auto exchange = comm_->start_sum_gradients({arena, segments});
    EXPECT_THROW(comm_->allreduce(Tensor::zeros({1})), Error);
    EXPECT_THROW(comm_->barrier(), Error);
    exchange->wait();
    EXPECT_THROW(exchange->wait(), Error);
  }
  // The destructor of an exchange waits for it.
  comm_->start_sum_gradients({arena, segments});
  comm_->allreduce(Tensor::zeros({1}));
}

TEST_P(Gradients, WaitRethrowsBackgroundErrors) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Tensor arena = Tensor::zeros({rank() == 0 ? 3 : 4});
  const GradientView::Segment whole[] = {{0, arena.count()}};
  const auto exchange = comm_->start_sum_gradients({arena, whole});
  EXPECT_THROW(exchange->wait(), Error);
}

// The second one is not begun, so no other rank waits for its messages.
TEST_P(Gradients, SlicesAfterAFailureFail) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Tensor arena = Tensor::zeros({rank() == 0 ? 3 : 4});
  const GradientView::Segment whole[] = {{0, arena.count()}};
  const auto first = comm_->start_sum_gradients({arena, whole}, Background::slices);
  const auto second = comm_->start_sum_gradients({arena, whole}, Background::slices);
  second->advance();
  EXPECT_THROW(first->wait(), Error);
  const auto error = testing::caught([&] { second->wait(); });
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error->what()).find("before this one has failed"), std::string::npos);
  comm_->barrier();
}

TASUKI_FOR_EVERY_COMMUNICATOR(Gradients);
// That of examples/my_training.
INSTANTIATE_TEST_SUITE_P(Own, Gradients, ::testing::Values("double"), name_of_parameter);

TEST(DummyCommunicator, SkipsOnlyGradientExchange) {
  const auto comm = create_communicator("dummy");
  const Tensor arena = Tensor::full({10}, comm->rank());
  const GradientView::Segment whole[] = {{0, 10}};
  comm->sum_gradients({arena, whole});
  EXPECT_EQ(arena.data<float>()[3], comm->rank());
  comm->allreduce(arena);
  EXPECT_EQ(arena.data<float>()[3], comm->size() * (comm->size() - 1) / 2);
}

TEST(Placement, SuggestsAlternativesToUnsuitableKinds) {
  const auto comm = create_communicator("naive");
  for (const char* name : {"single_node", "two_dimensional"}) {
    if (allows(name, comm->topology())) continue;
    try {
      create_communicator(name);
      ADD_FAILURE() << name << " was created";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_EQ(error.scope(), ErrorScope::every_rank);
      EXPECT_NE(std::string(error.what()).find("hierarchical"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tasuki
