// A mean over targets that count is exact, however unevenly they are spread over ranks.
#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/multi_node_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "same_run.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/standard_updater.hpp"
#include "training/workers/parallel_updater.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr std::int64_t examples = 23, width = 6, classes = 4;
constexpr std::int32_t ignored = -1;

const bool is_registered = [] {
  testing::register_guarded_device();
  return true;
}();

// Example i has i % 7 rows of numbers, each with a label; the first three of each five labels are
// ignored, all of them in examples below 8.
std::shared_ptr<Dataset> rows_with_labels() {
  DatasetHeader header{examples,
                       {{.name = "x", .shape = {0, width}, .is_ragged = true},
                        {.name = "t",
                         .shape = {0},
                         .stored = DType::int32,
                         .decoded = DType::int32,
                         .is_target = true,
                         .classes = classes,
                         .ignored_label = ignored,
                         .is_ragged = true,
                         .padding = ignored}}};
  auto dataset = std::make_shared<InMemoryDataset>(decode_header(encode_header(header)));
  RandomStream random(7);
  for (std::int64_t i = 0; i < examples; ++i) {
    std::vector<float> x(static_cast<std::size_t>(i % 7 * width));
    for (float& value : x) value = random.normal();
    std::vector<std::int32_t> t(static_cast<std::size_t>(i % 7));
    for (std::size_t row = 0; row < t.size(); ++row)
      t[row] = i < 8 || row % 5 < 3 ? ignored : static_cast<std::int32_t>(random.below(classes));
    const std::span<const std::byte> fields[] = {std::as_bytes(std::span(x)),
                                                 std::as_bytes(std::span(t))};
    dataset->set(i, i, fields);
  }
  return dataset;
}

class CountedTargets : public ::testing::Test {
 protected:
  struct Way {
    Device device = Device::cpu();
    std::int64_t batch = examples, accumulate = 1;
    std::size_t workers = 0;      // 0: StandardUpdater
    bool is_read_ahead = false;   // else resident on a device
    bool is_from_master = false;  // all ranks work on rank 0's batches
  };
  struct Done {
    std::vector<float> weights;
    std::vector<double> losses;
  };

  // Eight epochs, each one update with all examples.
  static Done train(Communicator* ranks, const Way& way) {
    std::vector<std::unique_ptr<Linear>> models;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, way.workers); ++i) {
      models.push_back(std::make_unique<Linear>(width, classes));
      models.back()->initialize(5);
      models.back()->to(way.device);
    }
    auto optimizer = create_optimizer("momentum_sgd");
    optimizer->set("lr", 0.5);
    if (ranks != nullptr) optimizer = create_multi_node_optimizer(std::move(optimizer), *ranks);
    optimizer->setup(*models.front());
    const auto loss_of = [](Linear& model) -> LossFunction {
      return [&model](const Batch& batch, Observation&) {
        const Tensor t = batch["t"];
        const Variable scores = model(F::reshape(Variable(batch["x"]), {t.count(), width}));
        return F::softmax_cross_entropy(scores, t.reshape({t.count()}));
      };
    };
    std::unique_ptr<Iterator> batches;
    auto shared = create_shuffled_iterator(
        testing::share_of(rows_with_labels(), way.is_from_master ? nullptr : ranks, 0), way.batch,
        3);
    if (way.is_from_master)
      batches = create_multi_node_iterator(std::move(shared), *ranks);
    else if (way.is_read_ahead)
      batches = std::make_unique<PrefetchIterator>(std::move(shared));
    else
      batches = create_device_iterator(std::move(shared), way.device);
    std::unique_ptr<Updater> updater;
    if (way.workers == 0) {
      updater = std::make_unique<StandardUpdater>(
          std::move(batches), *optimizer, loss_of(*models.front()),
          StandardUpdater::Settings{.graph = GraphMode::automatic, .accumulate = way.accumulate});
    } else {
      std::vector<ParallelUpdater::Worker> workers;
      for (const auto& model : models) workers.push_back({*model, loss_of(*model)});
      updater = std::make_unique<ParallelUpdater>(
          std::move(batches), *optimizer, std::move(workers),
          ParallelUpdater::Settings{.split = BatchSplit::even(way.workers)});
    }
    Done done;
    for (int epoch = 0; epoch < 8; ++epoch) {
      Observation seen;
      updater->update(seen);
      done.losses.push_back(seen.over_ranks(ranks).mean("main/loss").value());
    }
    EXPECT_EQ(updater->epoch(), 8);
    const Tensor weights = optimizer->arena().values().to(Device::cpu());
    done.weights.assign(weights.span<float>().begin(), weights.span<float>().end());
    return done;
  }
  static void expect_equal(const Done& a, const Done& b) {
    ASSERT_EQ(a.weights.size(), b.weights.size());
    for (std::size_t i = 0; i < a.weights.size(); ++i)
      EXPECT_NEAR(a.weights[i], b.weights[i], 2e-6) << "weight " << i;
    for (std::size_t i = 0; i < a.losses.size(); ++i)
      EXPECT_NEAR(a.losses[i], b.losses[i], 2e-6) << "epoch " << i;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
};

TEST_F(CountedTargets, GiveTheSameUpdatesAsOneRank) {
  ASSERT_TRUE(is_registered);
  const Done expected = train(nullptr, {});
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  const Device device = Device::cuda(0);
  for (const Way& way : {Way{}, Way{.is_read_ahead = true}, Way{.batch = 12, .accumulate = 2},
                         Way{device}, Way{.device = device, .is_read_ahead = true},
                         Way{.device = device, .batch = 12, .accumulate = 2},
                         Way{.is_from_master = true}, Way{.workers = 2}}) {
    if (way.workers > 0 && comm->size() > 1) continue;
    SCOPED_TRACE(fmt::format("{} batch {} workers {} read ahead {} from master {}",
                             way.device.text(), way.batch, way.workers, way.is_read_ahead,
                             way.is_from_master));
    expect_equal(train(comm.get(), way), expected);
  }
}

// The mean over an example's targets, and then over examples, is another one.
TEST_F(CountedTargets, AreNotWeightedByExamples) {
  const Share share = testing::share_of(rows_with_labels(), comm.get(), 0);
  const auto batches = create_serial_iterator(share, examples);
  const Batch batch = batches->next();
  std::int64_t counted = 0;
  for (const std::int32_t label : batch["t"].span<std::int32_t>()) counted += label != ignored;
  EXPECT_EQ(batch.weight(), counted);
  EXPECT_EQ(batch.slice(0, batch.size() / 2).weight() +
                batch.slice(batch.size() / 2, batch.size()).weight(),
            counted);
  const Tensor all = Tensor::full({}, static_cast<double>(counted), DType::int64);
  comm->allreduce(all);
  EXPECT_EQ(all.item(), 10);
}

TEST_F(CountedTargets, WeightEvaluators) {
  const auto evaluate = [](Communicator* ranks, std::int64_t batch) {
    Linear model(width, classes);
    model.initialize(5);
    auto evaluator = std::make_unique<Evaluator>(
        create_serial_iterator(testing::share_of(rows_with_labels(), ranks, 0), batch),
        [&](const Batch& each, Observation&) {
          const Tensor t = each["t"];
          return F::softmax_cross_entropy(
              model(F::reshape(Variable(each["x"]), {t.count(), width})), t.reshape({t.count()}));
        });
    if (ranks != nullptr) evaluator = create_multi_node_evaluator(std::move(evaluator), *ranks);
    return evaluator->evaluate().mean("main/loss").value();
  };
  EXPECT_NEAR(evaluate(comm.get(), 5), evaluate(nullptr, examples), 1e-6);
}

}  // namespace
}  // namespace tasuki
