// Trainings on token lines of any length: batches are as long as their longest line, which differs
// from step to step and from rank to rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "communicator/registry.hpp"
#include "core/json.hpp"
#include "dataset/files/sequences.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/scatter.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "same_run.hpp"
#include "tensor/backend.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"
#include "training/standard_updater.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::guarded_device_counts;

constexpr std::int64_t vocabulary = 12, classes = 3, examples = 61, longest = 9;

const bool is_registered = [] {
  testing::register_guarded_device();
  return true;
}();

// How a run gets its batches and its steps.
struct Way {
  Device device = Device::cpu();
  bool is_read_ahead = false;  // not resident, where that is a choice
  GraphMode graph = GraphMode::off;
};

// The sum of its tokens' rows of an identity matrix says how often each token is in a line; the row
// for padding is all zeros. Device work alone, the same for all batches of one shape.
class BagOfTokens : public Module {
 public:
  explicit BagOfTokens(Device device) : scores_(vocabulary, classes) {
    add("scores", scores_);
    const Tensor rows = Tensor::zeros({vocabulary + 1, vocabulary});
    for (std::int64_t i = 0; i < vocabulary; ++i) rows.data<float>()[i * (vocabulary + 1)] = 1;
    rows_ = rows.to(device);
  }
  Variable operator()(const Tensor& tokens) {
    Backend& device = backend(tokens.device());
    const Tensor numbers = tokens.to(DType::int64);
    const Tensor counts =
        Tensor::zeros({tokens.shape()[0], vocabulary}, DType::float32, tokens.device());
    for (std::int64_t i = 0; i < tokens.shape()[1]; ++i) {
      const Tensor column = device.take(numbers, 1, i, i + 1).reshape({tokens.shape()[0]});
      device.accumulate(counts, device.gather(rows_, column, DType::float32), 1);
    }
    return scores_(Variable(counts));
  }

 private:
  Linear scores_;
  Tensor rows_;
};

class RaggedTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(is_registered);
    if (comm->rank() != 0) return;
    // The label is the number of tokens below 4, up to two.
    for (const char* const split : {"train", "test"}) {
      std::ofstream file(folder / split);
      for (std::int64_t line = 0; line < examples; ++line) {
        std::string tokens;
        std::int64_t low = 0;
        for (std::int64_t i = 0; i < 1 + line * 7 % longest; ++i) {
          const std::int64_t token = (line * 5 + i * i * 3 + (*split == 't')) % vocabulary;
          low += token < 4 ? 1 : 0;
          tokens += ' ' + std::to_string(token);
        }
        file << std::min<std::int64_t>(low, classes - 1) << tokens << '\n';
      }
    }
  }

  Share share_of(const char* split) {
    const OpenSource open = [&] {
      return open_token_lines(folder / split, vocabulary,
                              {.classes = classes, .padding = vocabulary, .pad_to = 3});
    };
    return scatter_dataset(open, *comm, {.shuffle = true, .seed = 2});
  }
  std::unique_ptr<ShareIterator> training_batches() {
    return create_shuffled_iterator(share_of("train"), 4, 3);
  }

  // What a run leaves: all its weights and its log.
  struct Result {
    std::vector<float> weights;
    std::string log;
    friend bool operator==(const Result&, const Result&) = default;
  };

  // With `first_steps`, ends there and goes on from a snapshot with all made anew.
  Result train(Communicator& ranks, const Way& way, std::int64_t first_steps = 0) {
    const auto run = [&](std::optional<std::int64_t> steps, bool goes_on) {
      BagOfTokens model(way.device);
      model.initialize(5);
      model.to(way.device);
      const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), ranks);
      optimizer->setup(model);
      optimizer->set("alpha", 0.05);
      const auto batches = [&](std::unique_ptr<ShareIterator> iterator) {
        return way.is_read_ahead ? std::make_unique<PrefetchIterator>(std::move(iterator))
                                 : create_device_iterator(std::move(iterator), way.device);
      };
      const LossFunction loss = [&](const Batch& batch, Observation& seen) {
        const Variable scores = model(batch["x"]);
        const auto [correct, counted] = F::count_correct(scores, batch["t"]);
        seen.add_sum("accuracy", correct, counted);
        return F::softmax_cross_entropy(scores, batch["t"]);
      };
      Trainer trainer(std::make_unique<StandardUpdater>(
                          batches(training_batches()), *optimizer, loss,
                          StandardUpdater::Settings{.seed = 3, .graph = way.graph}),
                      stop_after(6, steps), folder / "out");
      trainer.extend(
          std::make_unique<Evaluator>(batches(create_serial_iterator(share_of("test"), 4)), loss));
      LogReport& log = trainer.extend(std::make_unique<LogReport>());
      if (goes_on) resume(folder / "state", trainer);
      trainer.run();
      if (steps) save_snapshot(folder / "state", trainer);
      const Tensor weights = optimizer->arena().values().to(Device::cpu());
      auto entries = log.entries();
      for (auto& entry : entries) entry.erase("elapsed_time");
      return Result{{weights.span<float>().begin(), weights.span<float>().end()},
                    json_text(entries, 1)};
    };
    if (first_steps > 0) run(first_steps, false);
    return run(std::nullopt, first_steps > 0);
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  testing::TemporaryFolder folder{comm.get()};
};

TEST_F(RaggedTraining, PadsBatchesPerRank) {
  const auto batches = training_batches();
  int unlike = 0;
  std::vector<std::int64_t> lengths;
  for (std::int64_t step = 0; step < 2 * batches->steps_per_epoch(); ++step) {
    const std::int64_t length = batches->next()["x"].shape()[1];
    lengths.push_back(length);
    const Tensor most = Tensor::full({}, static_cast<double>(length), DType::int64);
    comm->allreduce(most, ReduceOp::max);
    const Tensor is_less = Tensor::full({}, length < most.item() ? 1 : 0, DType::int64);
    comm->allreduce(is_less);
    unlike += is_less.item() > 0 ? 1 : 0;
  }
  EXPECT_EQ(unlike > 0, comm->size() > 1);
  EXPECT_GT(std::ranges::max(lengths), std::ranges::min(lengths));
}

TEST_F(RaggedTraining, DoesNotDependOnHowBatchesAreRead) {
  const Result expected = train(*comm, {});
  const auto log = testing::json_from(expected.log);
  EXPECT_LT(log.back().at("main/loss").get<double>(),
            log.front().at("main/loss").get<double>() / 2);
  EXPECT_GT(log.back().at("validation/main/accuracy").get<double>(), 0.5);
  EXPECT_EQ(train(*comm, {.is_read_ahead = true}), expected);
  // Exchanges through MPI are not recorded, evaluation is.
  const GraphMode graph = comm->size() == 1 ? GraphMode::on : GraphMode::automatic;
  for (const GraphMode mode : {GraphMode::off, graph})
    for (const bool is_read_ahead : {false, true}) {
      SCOPED_TRACE(fmt::format("graph {}, read ahead {}", static_cast<int>(mode), is_read_ahead));
      const auto before = guarded_device_counts();
      EXPECT_EQ(train(*comm, {Device::cuda(0), is_read_ahead, mode}), expected);
      EXPECT_EQ(guarded_device_counts().replays > before.replays, mode != GraphMode::off);
    }
}

TEST_F(RaggedTraining, ResumesWithinAnEpoch) {
  const GraphMode graph = comm->size() == 1 ? GraphMode::on : GraphMode::automatic;
  const Result expected = train(*comm, {});
  const std::int64_t steps = training_batches()->steps_per_epoch();
  for (const Way& way : {Way{}, Way{.is_read_ahead = true}, Way{Device::cuda(0), false, graph},
                         Way{Device::cuda(0), true, graph}})
    EXPECT_EQ(train(*comm, way, steps + steps / 2), expected);
}

// Without an exchange, steps of all ranks are recorded, each with a padding of its own.
TEST_F(RaggedTraining, AllowsDifferentRecordedStepsPerRank) {
  const auto queueing = create_communicator("dummy");
  const Result expected = train(*queueing, {Device::cuda(0)});
  for (const bool is_read_ahead : {false, true}) {
    const auto before = guarded_device_counts();
    EXPECT_EQ(train(*queueing, {Device::cuda(0), is_read_ahead, GraphMode::automatic}), expected);
    const auto after = guarded_device_counts();
    EXPECT_GT(after.replays - before.replays, 2 * (after.recordings - before.recordings));
  }
}

}  // namespace
}  // namespace tasuki
