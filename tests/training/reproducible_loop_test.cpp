// A loop of one's own with shards: the bits of one process on any number of ranks.
#include "training/reproducible_loop.hpp"

#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/standard_updater.hpp"

namespace tasuki::testing {
namespace {

constexpr std::int64_t examples = 90, batch_size = 25;

std::unique_ptr<Classifier> small_net() {
  auto net = std::make_unique<Sequential>();
  net->append("l1", std::make_unique<Linear>(12, 20));
  net->append("bn", std::make_unique<BatchNorm>(20)).append(functions::relu);
  net->append([](const Variable& x) { return functions::dropout(x, 0.3F); });
  net->append("l2", std::make_unique<Linear>(20, 4));
  auto model = std::make_unique<Classifier>(std::move(net));
  model->initialize(5);
  return model;
}

// Weights, statistics, and what was observed in training and evaluation.
std::vector<double> trained(Communicator* ranks, std::uint64_t seed = 3) {
  const auto model = small_net();
  auto optimizer = create_optimizer("adam");
  if (ranks) optimizer = create_multi_node_optimizer(std::move(optimizer), *ranks);
  ReproducibleLoop steps(*optimizer, {.shards = 12, .seed = seed});
  optimizer->setup(*model);
  const auto share = [&] { return share_of(synthetic(examples), ranks, steps.scatter().shards); };
  ShareIterator batches(share(), steps.batches(batch_size));
  std::vector<double> values;
  const auto add = [&](const Observation& found, const std::string& prefix) {
    const Observation all = found.over_ranks(ranks);
    for (const char* key : {"loss", "accuracy"}) values.push_back(all.mean(prefix + key).value());
  };
  for (int i = 0; i < 9; ++i) {
    Observation seen;
    steps.update(batches.next(), classification_loss(*model), seen);
    add(seen, "");
  }
  ShareIteratorOptions once = steps.batches(batch_size);
  once.repeat = once.shuffle = false;
  Evaluator evaluator(std::make_unique<ShareIterator>(share(), once), classification_loss(*model));
  add(evaluator.evaluate(), "main/");
  for (const auto& [path, parameter] : model->parameters())
    for (const float value : parameter->value().span<float>()) values.push_back(value);
  for (const auto& [path, buffer] : model->buffers()) {
    const Tensor wide = buffer->to(DType::float64);
    values.insert(values.end(), wide.span<double>().begin(), wide.span<double>().end());
  }
  return values;
}

TEST(ReproducibleLoops, HaveTheBitsOfOneProcess) {
  const auto ranks = create_communicator("flat");
  const std::vector<double> alone = trained(nullptr);
  EXPECT_EQ(trained(ranks.get()), alone);
  EXPECT_NE(trained(nullptr, /*seed=*/4), alone);
}

TEST(ReproducibleLoops, RefuseBatchesWithoutShards) {
  const auto model = small_net();
  const auto optimizer = create_optimizer("sgd");
  ReproducibleLoop steps(*optimizer, {.shards = 4});
  optimizer->setup(*model);
  ShareIteratorOptions options = steps.batches(8);
  options.marks_shards = false;
  ShareIterator batches(share_of(synthetic(examples), nullptr, 4), options);
  Observation seen;
  expect_error(ErrorKind::usage, {"of which of 0 shards, expected 4"},
               [&] { steps.update(batches.next(), classification_loss(*model), seen); });
}

}  // namespace
}  // namespace tasuki::testing
