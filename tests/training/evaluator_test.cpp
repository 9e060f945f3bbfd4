// Evaluation over ranks is exact, however examples are dealt.
#include "training/extensions/evaluator.hpp"
#include "communicator/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "communicator/registry.hpp"
#include "core/json.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "printed.hpp"
#include "scripted_updater.hpp"
#include "small_run.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/generic_evaluator.hpp"
#include "training/extensions/print_progress.hpp"

namespace tasuki {
namespace {

using testing::share_of;
using testing::small_model;
using testing::SmallRun;
using testing::synthetic;
using testing::TemporaryFolder;

class EvaluatorTest : public ::testing::Test {
 protected:
  // Whether these bytes are the same on all ranks.
  bool same_everywhere(std::span<const std::byte> own) {
    for (const Bytes& other : allgather_bytes(*comm, own))
      if (other != Bytes(own.begin(), own.end())) return false;
    return true;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  std::unique_ptr<Classifier> model = small_model();
};

TEST_F(EvaluatorTest, MatchesOneRankInSumsAndCounts) {
  struct Case {
    std::int64_t examples, batch;
  };
  for (const Case& c : {Case{97, 7}, Case{9, 77}, Case{1, 1}, Case{2, 3}, Case{100, 10}}) {
    SCOPED_TRACE(fmt::format("{} examples, batches of {}", c.examples, c.batch));
    const auto dataset = synthetic(c.examples);
    Evaluator alone(create_serial_iterator(Share::whole(dataset), c.examples),
                    classification_loss(*model));
    const Observation expected = alone.evaluate();
    const auto evaluator = create_multi_node_evaluator(
        std::make_unique<Evaluator>(create_serial_iterator(share_of(dataset, comm.get()), c.batch),
                                    classification_loss(*model)),
        *comm);
    for (int pass = 0; pass < 2; ++pass) {
      const Observation found = evaluator->evaluate();
      ASSERT_EQ(found.values().size(), 2U);
      const auto& accuracy = found.values().at("main/accuracy");
      EXPECT_EQ(accuracy.sum(), expected.values().at("main/accuracy").sum());
      EXPECT_EQ(accuracy.count, c.examples);
      EXPECT_EQ(accuracy.reach, Reach::job);
      const auto& loss = found.values().at("main/loss");
      EXPECT_NEAR(loss.sum(), expected.values().at("main/loss").sum(), 1e-5 * loss.sum());
      EXPECT_EQ(loss.count, c.examples);
      const double sum = loss.sum();
      EXPECT_TRUE(same_everywhere(std::as_bytes(std::span(&sum, 1))));
    }
  }
}

TEST_F(EvaluatorTest, ReportsAccuracyOfLabelledExamples) {
  const TrainingMode evaluating(false);  // the model has dropout
  const auto dataset = synthetic(6);
  const Batch labelled = create_serial_iterator(Share::whole(dataset), 6)->next();
  const Tensor t = Tensor::full({6}, -1, DType::int32);
  Batch batch = labelled;
  batch.set({.name = "t", .values = t, .is_target = true});
  const LossFunction loss = classification_loss(*model);
  Observation unlabelled;
  loss(batch, unlabelled);
  EXPECT_EQ(unlabelled.mean("accuracy"), std::nullopt);

  const Tensor scores = model->predictor()(Variable(labelled["x"])).value();
  const auto row = scores.span<float>().first(static_cast<std::size_t>(scores.shape()[1]));
  t.data<std::int32_t>()[0] =
      static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
  Observation one;
  loss(batch, one);
  EXPECT_EQ(one.mean("accuracy"), 1);
}

// Of a fixed model, accuracy is a quotient of integers: the same double on any number of ranks.
TEST_F(EvaluatorTest, GivesExactlyTheSameAccuracyAsOneRank) {
  constexpr std::int64_t examples = 10'000;
  const auto dataset = synthetic(examples);
  double expected = 0;
  if (comm->rank() == 0) {
    Evaluator alone(create_serial_iterator(Share::whole(dataset), 1000),
                    classification_loss(*model));
    expected = alone.evaluate().mean("main/accuracy").value();
    EXPECT_GT(expected, 0);
    EXPECT_LT(expected, 1);
  }
  expected = comm->bcast(Tensor::full(Shape{}, expected, DType::float64)).item();
  const auto evaluator = create_multi_node_evaluator(
      std::make_unique<Evaluator>(create_serial_iterator(share_of(dataset, comm.get()), 100),
                                  classification_loss(*model)),
      *comm);
  const Observation found = evaluator->evaluate();
  EXPECT_EQ(found.values().at("main/accuracy").count, examples);
  EXPECT_EQ(found.mean("main/accuracy"), expected);
}

TEST_F(EvaluatorTest, HandlesNoExamples) {
  const auto evaluator = create_multi_node_evaluator(
      std::make_unique<Evaluator>(create_serial_iterator(share_of(synthetic(0), comm.get()), 5),
                                  classification_loss(*model)),
      *comm);
  EXPECT_TRUE(evaluator->evaluate().empty());
}

TEST_F(EvaluatorTest, RestoresTrainingModeAfterwards) {
  bool was_training = true, recorded = true;
  Evaluator evaluator(create_serial_iterator(Share::whole(synthetic(5)), 5),
                      [&](const Batch& batch, Observation&) {
                        was_training = TrainingMode::is_training();
                        const Variable loss = (*model)(Variable(batch["x"]), batch["t"]).loss;
                        recorded = loss.requires_grad();
                        return loss;
                      });
  evaluator.evaluate();
  EXPECT_FALSE(was_training);
  EXPECT_FALSE(recorded);
  EXPECT_TRUE(TrainingMode::is_training());
}

// Its own metric, an integer that no mean of means would get right.
struct Counting : Evaluator {
  using Evaluator::Evaluator;
  Observation evaluate_share() override {
    Observation seen;
    seen.add_sum("main/score", rank + 1, rank);  // nothing on rank 0
    return seen;
  }
  int rank = 0;
};

TEST_F(EvaluatorTest, SupportsOwnEvaluatorsAndNames) {
  const TemporaryFolder folder(comm.get());
  SmallRun run(folder / "out", comm.get(), {.epochs = 1});
  auto counting = std::make_unique<Counting>(nullptr, LossFunction());
  counting->rank = comm->rank();
  run.trainer->extend(create_multi_node_evaluator(std::move(counting), *comm));
  // Without create_multi_node_evaluator the log adds the ranks' parts up.
  run.trainer->extend(
      std::make_unique<Evaluator>(create_serial_iterator(share_of(synthetic(41, 1), comm.get()), 7),
                                  classification_loss(*run.model)),
      {.name = "plain"});
  run.trainer->run();
  auto entry = run.log->entries().at(0);
  entry.erase("elapsed_time");  // of each rank's clock
  EXPECT_EQ(entry.at("plain/main/accuracy"), entry.at("validation/main/accuracy"));
  EXPECT_EQ(entry.at("plain/main/loss"), entry.at("validation/main/loss"));
  const int n = comm->size();
  if (n == 1)
    EXPECT_FALSE(entry.contains("validation_1/main/score"));
  else
    EXPECT_EQ(entry.at("validation_1/main/score"), n * (n + 1) / 2.0 / (n * (n - 1) / 2.0));
  const std::string text = json_text(entry);
  EXPECT_TRUE(same_everywhere(std::as_bytes(std::span(text))));
}

// Passes of 20 batches of 10 ms, whose training takes no time.
TEST_F(EvaluatorTest, ReportsProgressOnRank0) {
  const TemporaryFolder folder(comm.get());
  constexpr std::int64_t batches = 20;
  const auto examples = [&] {
    return create_serial_iterator(share_of(synthetic(batches * comm->size()), comm.get()), 1);
  };
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  const auto printed_with = [&](double interval, bool is_generic) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
    Trainer trainer(std::make_unique<testing::ScriptedUpdater>(1, nullptr, nullptr, comm.get()),
                    stop_after(1), folder / "out");
    if (is_generic)
      trainer.extend(std::make_unique<GenericEvaluator>(
          examples(),
          [&](const Batch&) {
            pause();
            return Bytes();
          },
          [](const std::vector<Bytes>&, Observation&) {}, comm.get()));
    else
      trainer.extend(create_multi_node_evaluator(
          std::make_unique<Evaluator>(examples(),
                                      [&](const Batch& batch, Observation& seen) {
                                        pause();
                                        return classification_loss(*model)(batch, seen);
                                      }),
          *comm));
    trainer.extend(std::make_unique<PrintProgress>(interval, 1, out.get()));
    trainer.run();
    return testing::contents_of(out.get());
  };
  for (const bool is_generic : {false, true}) {
    SCOPED_TRACE(is_generic);
    const std::string text = printed_with(0.045, is_generic);
    if (comm->rank() == 0)
      EXPECT_THAT(text, ::testing::ContainsRegex("^evaluating, batch [0-9]+ of 20\n"
                                                 "evaluating, batch [0-9]+ of 20\n"));
    else
      EXPECT_EQ(text, "");
    EXPECT_LE(std::ranges::count(text, '\n'), batches);
    EXPECT_EQ(printed_with(30, is_generic), "");
    EXPECT_EQ(printed_with(0, is_generic), "");
  }
}

}  // namespace
}  // namespace tasuki
