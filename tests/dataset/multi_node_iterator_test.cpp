// Iterators that give all ranks the same batches: cases 20 and 21 of ChainerMN's tests.
#include "dataset/iterators/multi_node_iterator.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "communicator/registry.hpp"
#include "examples.hpp"
#include "files.hpp"
#include "tests/support/sequences.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

Communicator& world() {
  static const auto communicator = create_communicator("naive");
  return *communicator;
}

constexpr std::int64_t examples = 100;

std::unique_ptr<ShareIterator> shuffled(std::int64_t batch_size, std::uint64_t seed) {
  return create_shuffled_iterator(Share::whole(numbered_examples(examples)), batch_size, seed);
}
std::unique_ptr<ShareIterator> once(std::int64_t batch_size) {
  return std::make_unique<ShareIterator>(
      Share::whole(numbered_examples(examples)),
      ShareIteratorOptions{.batch_size = batch_size, .shuffle = true, .repeat = false});
}

// What all ranks must see when rank 0's (or the master's) iterator alone would give `steps`; sizes
// count once per rank.
std::vector<Step> everywhere(std::vector<Step> steps) {
  for (Step& step : steps) step.global_size *= world().size();
  return steps;
}

// The two kinds, made from iterators that differ between ranks: only `master`'s may matter.
struct Kind {
  const char* name;
  bool any_master;
  std::unique_ptr<Iterator> (*create)(std::unique_ptr<ShareIterator> own, int master);
};

class MultiNodeIteratorOfAnyKind : public ::testing::TestWithParam<Kind> {
 protected:
  int masters() const { return GetParam().any_master ? world().size() : 1; }
  std::unique_ptr<Iterator> create(std::int64_t batch_size, int master) const {
    const auto seed = static_cast<std::uint64_t>(world().rank() == master ? 77 : world().rank());
    return GetParam().create(shuffled(batch_size, seed), master);
  }
};
INSTANTIATE_TEST_SUITE_P(
    Kinds, MultiNodeIteratorOfAnyKind,
    ::testing::Values(
        Kind{"multi_node", true,
             [](std::unique_ptr<ShareIterator> own, int master) -> std::unique_ptr<Iterator> {
               return create_multi_node_iterator(std::move(own), world(), master);
             }},
        Kind{"synchronized", false,
             [](std::unique_ptr<ShareIterator> own, int) -> std::unique_ptr<Iterator> {
               return create_synchronized_iterator(std::move(own), world());
             }}),
    [](const auto& info) { return info.param.name; });

TEST_P(MultiNodeIteratorOfAnyKind, GivesAllRanksTheSameBatchesForAnyMaster) {
  for (int master = 0; master < masters(); ++master)
    for (const std::int64_t batch_size : {4, 7}) {
      const auto iterator = create(batch_size, master);
      EXPECT_EQ(iterator->steps_per_epoch(), (examples + batch_size - 1) / batch_size);
      EXPECT_EQ(take(*iterator, 40), everywhere(take(*shuffled(batch_size, 77), 40)));
    }
}

TEST_P(MultiNodeIteratorOfAnyKind, EndsOneEpochOnAllRanks) {
  for (const std::int64_t batch_size : {4, 7}) {
    const auto iterator = GetParam().create(once(batch_size), 0);
    take(*iterator, iterator->steps_per_epoch());
    expect_error(ErrorKind::internal, {"no batch is left"}, [&] { iterator->next(); });
    iterator->restore({});
    take(*iterator, 1);
  }
}

TEST_P(MultiNodeIteratorOfAnyKind, RestoresLikeAPlainIterator) {
  for (int master = 0; master < masters(); ++master) {
    const auto plain = shuffled(7, 77);
    const auto expected = take(*plain, 40);
    const auto iterator = create(7, master);
    take(*iterator, 18);
    const IteratorState state = iterator->state();
    take(*iterator, 5);
    const auto another = create(7, master);
    for (Iterator* target : {iterator.get(), another.get()}) {
      target->restore(state);
      plain->restore(state);
      EXPECT_EQ(target->is_new_epoch(), plain->is_new_epoch());
      EXPECT_EQ(target->epoch_detail(), plain->epoch_detail());
      EXPECT_EQ(take(*target, 22),
                everywhere(std::vector<Step>(expected.begin() + 18, expected.end())));
    }
    expect_error(ErrorKind::data, {"step 15"}, [&] { iterator->restore({0, 15}); });
  }
}

TEST(MultiNodeIterator, NeedsAnIteratorOnlyOnTheMaster) {
  for (int master = 0; master < world().size(); ++master) {
    auto iterator = create_multi_node_iterator(world().rank() == master ? shuffled(8, 77) : nullptr,
                                               world(), master);
    EXPECT_EQ(iterator->layout(), shuffled(8, 77)->layout());
    EXPECT_EQ(take(*iterator, 3), everywhere(take(*shuffled(8, 77), 3)));
  }
}

TEST(MultiNodeIterator, SendsFieldsOfAllKinds) {
  for (int master = 0; master < world().size(); ++master) {
    auto own = world().rank() == master
                   ? create_shuffled_iterator(Share::whole(sequences(23, 2)), 5, 3)
                   : nullptr;
    const auto iterator = create_multi_node_iterator(std::move(own), world(), master);
    for (int i = 0; i < 7; ++i) {
      const Batch batch = iterator->next();
      expect_sequences(batch, 2);
      EXPECT_TRUE(batch.fields()[2].is_target);
    }
  }
}

TEST(MultiNodeIterator, UsesTheMastersPosition) {
  auto own = shuffled(7, 77);
  take(*own, world().rank() + 1);
  const auto iterator = create_multi_node_iterator(std::move(own), world());
  EXPECT_EQ(iterator->state(), (IteratorState{0, 1}));
  iterator->restore({2, world().rank() == 0 ? 3 : 0});
  EXPECT_EQ(iterator->state(), (IteratorState{2, 3}));
}

TEST(MultiNodeIterator, RejectsMasterWithoutIteratorOnAllRanks) {
  expect_error(ErrorKind::internal, {"master"}, [&] {
    create_multi_node_iterator(world().rank() == 0 ? nullptr : shuffled(7, 1), world(), 0);
  });
}

// An unreadable example is what an unsupported element type was to ChainerMN.
TEST(MultiNodeIterator, ReportsMastersReadErrorsOnAllRanks) {
  struct Unreadable final : Dataset {
    const DatasetHeader& header() const override { return known; }
    void read(std::int64_t, std::size_t, FieldWriter&) const override {
      fail(ErrorKind::io, "this cannot be read");
    }
    DatasetHeader known = classification_header(10, {2}, 5, DType::float32);
  };
  auto own = world().rank() == 0
                 ? create_shuffled_iterator(Share::whole(std::make_shared<Unreadable>()), 4, 1)
                 : shuffled(4, 1);
  const auto iterator = create_multi_node_iterator(std::move(own), world());
  expect_error(ErrorKind::io, {"cannot be read"}, [&] { iterator->next(); });
  EXPECT_EQ(iterator->state(), IteratorState{});
}

}  // namespace
}  // namespace tasuki
