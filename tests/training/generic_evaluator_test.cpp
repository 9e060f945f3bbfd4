// Results of all batches of all ranks, in the order of rounds.
#include "training/extensions/generic_evaluator.hpp"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "communicator/text_bytes.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using testing::share_of;
using testing::small_model;
using testing::SmallRun;
using testing::synthetic;
using testing::TemporaryFolder;

std::string text_of(const Batch& batch) {
  return fmt::format("{}", fmt::join(batch.ids(), " "));
}
Bytes local_text(const Batch& batch) {
  return text_to_bytes(text_of(batch));
}
void ignore(const std::vector<Bytes>& /*results*/, Observation& /*found*/) {}

struct Case {
  std::int64_t examples, batch;
  int shards;  // 0: one per rank
};

class GenericEvaluatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Iterator> share_in_batches(const Case& c, int rank) const {
    return create_serial_iterator(
        take_share(synthetic(c.examples), comm->size(), rank, {.shards = c.shards}), c.batch);
  }

  // Walks over the shares of all ranks in turn.
  std::vector<std::string> results_in_order(const Case& c) const {
    std::vector<std::unique_ptr<Iterator>> shares;
    shares.reserve(static_cast<std::size_t>(comm->size()));
    for (int rank = 0; rank < comm->size(); ++rank) shares.push_back(share_in_batches(c, rank));
    std::vector<std::string> expected;
    for (std::int64_t round = 0; round < shares[0]->steps_per_epoch(); ++round) {
      for (const auto& share : shares) {
        const Batch batch = share->next();
        if (batch.size() > 0) expected.push_back(text_of(batch));
      }
    }
    return expected;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
};

// With marked shards, results do not depend on the number of ranks.
TEST_F(GenericEvaluatorTest, GathersResultsByShard) {
  const int shards = 6 * comm->size();
  const auto results_of = [&](int ranks, int rank, Communicator* among) {
    auto batches = std::make_unique<ShareIterator>(
        take_share(synthetic(50), ranks, rank, {.shards = shards}),
        ShareIteratorOptions{.global_batch = 20, .repeat = false, .marks_shards = true});
    GenericEvaluator evaluator(std::move(batches), local_text, ignore, among);
    std::vector<std::string> found;
    for (const Bytes& each : evaluator.gather_results()) found.emplace_back(bytes_to_text(each));
    return found;
  };
  const std::vector<std::string> expected = results_of(1, 0, nullptr);
  EXPECT_GT(expected.size(), 12U);
  EXPECT_EQ(results_of(comm->size(), comm->rank(), comm.get()),
            comm->rank() == 0 ? expected : std::vector<std::string>());
}

TEST_F(GenericEvaluatorTest, GathersResultsInOrderOnlyAtTheRoot) {
  // Batches that do not divide the shares, and ranks that have few examples or none.
  for (const Case& c : {Case{97, 7, 0}, Case{9, 77, 0}, Case{2, 1, 0}, Case{0, 3, 0},
                        Case{29, 3, 4 * comm->size()}}) {
    const std::vector<std::string> expected = results_in_order(c);
    for (int root = 0; root < comm->size(); ++root) {
      SCOPED_TRACE(fmt::format("{} examples, batches of {}, root {}", c.examples, c.batch, root));
      GenericEvaluator evaluator(share_in_batches(c, comm->rank()), local_text, ignore, comm.get(),
                                 root);
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<std::string> found;
        for (const Bytes& each : evaluator.gather_results())
          found.emplace_back(bytes_to_text(each));
        EXPECT_EQ(found, comm->rank() == root ? expected : std::vector<std::string>());
      }
    }
  }
}

TEST_F(GenericEvaluatorTest, AcceptsEmptyAndLargeResults) {
  const Case c{20, 3, 0};
  GenericEvaluator evaluator(
      share_in_batches(c, comm->rank()),
      [this](const Batch& batch) {
        return Bytes(comm->rank() % 2 == 0 ? 0 : 100'000, static_cast<std::byte>(batch.ids()[0]));
      },
      ignore, comm.get());
  const std::size_t batches = results_in_order(c).size();
  const std::vector<Bytes> results = evaluator.gather_results();
  ASSERT_EQ(results.size(), comm->rank() == 0 ? batches : 0);
  if (comm->rank() != 0) return;
  EXPECT_TRUE(results[0].empty());
  if (comm->size() > 1) {
    EXPECT_EQ(results[1].size(), 100'000U);
  }
}

TEST_F(GenericEvaluatorTest, UsesAllDataWithoutACommunicator) {
  GenericEvaluator evaluator(create_serial_iterator(Share::whole(synthetic(5)), 2), local_text,
                             ignore);
  std::vector<std::string> found;
  for (const Bytes& each : evaluator.gather_results()) found.emplace_back(bytes_to_text(each));
  EXPECT_EQ(found, (std::vector<std::string>{"0 1", "2 3", "4"}));
}

TEST_F(GenericEvaluatorTest, RunsLayersInEvaluationMode) {
  const auto model = small_model();
  bool was_training = false, recorded = false;
  GenericEvaluator evaluator(
      create_serial_iterator(Share::whole(synthetic(5)), 5),
      [&](const Batch& batch) {
        was_training = TrainingMode::is_training();
        recorded = (*model)(Variable(batch["x"]), batch["t"]).loss.requires_grad();
        return Bytes();
      },
      ignore);
  evaluator.gather_results();
  EXPECT_FALSE(was_training);
  EXPECT_FALSE(recorded);
  EXPECT_TRUE(TrainingMode::is_training());
}

// A value that is not a sum over examples: the longest of all results.
TEST_F(GenericEvaluatorTest, ReportsTheRootsValuesOnAllRanks) {
  const TemporaryFolder folder(comm.get());
  SmallRun run(folder / "out", comm.get(), {.epochs = 2});
  const Case c{97, 7, 0};
  double longest = 0;
  for (const std::string& text : results_in_order(c))
    longest = std::max(longest, static_cast<double>(text.size()));
  const int root = comm->size() - 1;
  run.trainer->extend(std::make_unique<GenericEvaluator>(
                          share_in_batches(c, comm->rank()), local_text,
                          [](const std::vector<Bytes>& results, Observation& found) {
                            std::size_t most = 0;
                            for (const Bytes& each : results) most = std::max(most, each.size());
                            found.set("longest", static_cast<double>(most));
                          },
                          comm.get(), root),
                      {.name = "texts"});
  run.trainer->run();
  ASSERT_EQ(run.log->entries().size(), 2U);
  for (const auto& entry : run.log->entries()) EXPECT_EQ(entry.at("texts/longest"), longest);
}

TEST_F(GenericEvaluatorTest, RethrowsTheRootsErrorsEverywhere) {
  GenericEvaluator evaluator(
      share_in_batches({9, 2, 0}, comm->rank()), local_text,
      [](const std::vector<Bytes>&, Observation&) { fail(ErrorKind::data, "no references"); },
      comm.get(), comm->size() - 1);
  EXPECT_EQ(error_of([&] { evaluator.evaluate(); }), "no references");
}

}  // namespace
}  // namespace tasuki
