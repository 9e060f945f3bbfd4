// What `tasuki-simulate --fit` finds: memory of a machine, and settings that fit.
#include <gtest/gtest.h>

#include <cmath>

#include "tools/simulate/report.hpp"

namespace tasuki::simulate {
namespace {

// 10 examples take 100 bytes of activations, 90 of them in three blocks.
ModelMemory small_model() {
  return {.weights = 100,
          .gradients = 100,
          .states = 200,
          .travelling = 40,
          .activations = 10,
          .working = 1,
          .other = 50,
          .blocks = {{4, 0.01}, {3, 0.005}, {2, 0.006}}};
}

// 3.6 s alone; 1 MB/s and 1 ms between ranks.
FitQuestion question(int ranks = 1) {
  constexpr Link slow{.latency = 1e-3, .bytes_per_second = 1e6};
  return {.workload = {.input = 0.1,
                       .forward = 1,
                       .backward = 2,
                       .update = 0.5,
                       .ranges = {{100, 1}, {100, 2}}},
          .memory = small_model(),
          .cluster = {.between = slow, .inside = slow},
          .ranks = ranks,
          .examples = 10};
}

std::vector<std::string> flags_that_fit(const FitQuestion& question, double bytes) {
  std::vector<std::string> all;
  for (const FitRow& row : settings_that_fit(question, bytes)) all.push_back(flags_of(row));
  return all;
}

TEST(MachineMemory, AddsUpARank) {
  const MachineMemory memory = memory_of(small_model(), machine_of(1, 4), {}, 10);
  EXPECT_EQ(memory.weights, 100);
  EXPECT_EQ(memory.gradients, 100);
  EXPECT_EQ(memory.states, 200);
  EXPECT_EQ(memory.checkpoint, 300);
  EXPECT_EQ(memory.activations, 100);
  EXPECT_EQ(memory.working, 10);
  EXPECT_EQ(memory.other, 50);
  EXPECT_EQ(memory.total(), 860);
}

TEST(MachineMemory, HoldsTheLargestRecomputedBlock) {
  const ModelMemory model = small_model();
  const MachineMemory all =
      memory_of(model, machine_of(1, 1), {.recomputed = all_blocks(model)}, 10);
  EXPECT_EQ(all.activations, 10);
  EXPECT_EQ(all.working, 10 + 40);
  const MachineMemory two =
      memory_of(model, machine_of(1, 1), {.recomputed = {false, true, true}}, 10);
  EXPECT_EQ(two.activations, 50);
  EXPECT_EQ(two.working, 10 + 30);
  EXPECT_NEAR(recompute_seconds(model, {.recomputed = {false, true, true}}, 10), 0.11, 1e-12);
}

TEST(MachineMemory, HalvesActivationsWithBf16) {
  ModelMemory model = small_model();
  const MachineMemory half = memory_of(model, machine_of(1, 1), {.bf16 = true}, 10);
  EXPECT_EQ(half.weights, 150);
  EXPECT_EQ(half.checkpoint, 300);
  EXPECT_EQ(half.activations, 50);
  EXPECT_EQ(half.working, 5);
  model.is_bf16 = true;  // it was measured with bf16
  EXPECT_EQ(memory_of(model, machine_of(1, 1), {.bf16 = true}, 10).activations, 100);
}

TEST(MachineMemory, DividesStatesAndGradients) {
  const Machine machine = machine_of(8, 2);
  const auto with = [&](Sharding sharding) {
    return memory_of(small_model(), machine, {.sharding = sharding}, 10);
  };
  const MachineMemory none = with(Sharding::none), states = with(Sharding::states),
                      gradients = with(Sharding::gradients), weights = with(Sharding::weights);
  EXPECT_EQ(none.weights, 100);
  EXPECT_EQ(none.gradients, 200);
  EXPECT_EQ(none.states, 200);
  EXPECT_EQ(none.activations, 200);
  EXPECT_EQ(none.other, 100);
  EXPECT_EQ(states.states, 50);
  EXPECT_EQ(states.gradients, 200);
  EXPECT_EQ(states.checkpoint, 150);
  EXPECT_EQ(gradients.states, 50);
  EXPECT_EQ(gradients.gradients, 2 * (12.5 + 40));
  EXPECT_EQ(gradients.weights, 100);
  EXPECT_EQ(weights.gradients, gradients.gradients);
  EXPECT_EQ(weights.states, 50);
  EXPECT_NEAR(weights.weights, 100 * (0.25 + 2.0 / 12), 1e-9);
  EXPECT_EQ(weights.checkpoint, 50 + 25);
  // Ranks of one machine share their weights.
  EXPECT_EQ(memory_of(small_model(), machine_of(2, 2), {.sharding = Sharding::weights}, 10).weights,
            100);
  // Slots of most of the gradients take more memory than all.
  ModelMemory lopsided = small_model();
  lopsided.travelling = 90;
  EXPECT_EQ(memory_of(lopsided, machine, {.sharding = Sharding::gradients}, 10).gradients, 200);
  EXPECT_EQ(machine_of(3, 8).per_node, 3);  // fewer ranks than fit on a machine
}

TEST(BlocksBeyond, KeepsWhatSavesMostTimeForItsBytes) {
  const ModelMemory model = small_model();
  // Worth 0.0025, 0.0017 and 0.003 s a byte.
  using Blocks = std::vector<bool>;
  EXPECT_EQ(blocks_beyond(model, {}, 10, 90), Blocks({false, false, false}));
  EXPECT_EQ(blocks_beyond(model, {}, 10, 89), Blocks({false, true, false}));
  EXPECT_EQ(blocks_beyond(model, {}, 10, 59), Blocks({true, false, false}));
  EXPECT_EQ(blocks_beyond(model, {}, 10, 20), Blocks({true, true, false}));
  EXPECT_EQ(blocks_beyond(model, {}, 10, -5), Blocks({true, true, true}));
  EXPECT_EQ(blocks_beyond(model, {.bf16 = true}, 10, 45), Blocks({false, false, false}));
}

TEST(Fit, ChangesNothingWhereThereIsRoom) {
  const std::vector<FitRow> rows = settings_that_fit(question(), 860);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(flags_of(rows[0]), "--batchsize 10");
  EXPECT_EQ(rows[0].memory.total(), 860);
  EXPECT_NEAR(rows[0].prediction.step, 3.6, 1e-12);
}

TEST(Fit, FindsTheFewestPassesAndBlocks) {
  // Half of the batch takes 805 bytes, bf16 855, recomputing all but the smallest block 830.
  const std::vector<FitRow> rows = settings_that_fit(question(), 855);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(flags_of(rows[0]), "--batchsize 5 --accumulate 2");
  EXPECT_EQ(flags_of(rows[1]), "--batchsize 10 --dtype bf16");
  EXPECT_EQ(flags_of(rows[2]), "--batchsize 10 --recompute auto");
  EXPECT_EQ(rows[2].choice.recomputed, (std::vector<bool>{true, true, false}));
  EXPECT_NEAR(rows[2].prediction.step, 3.6 + 0.15, 1e-12);
  for (const FitRow& row : rows) EXPECT_LE(row.memory.total(), 855);
}

TEST(Fit, SaysWhatComesNearest) {
  EXPECT_TRUE(settings_that_fit(question(), 700).empty());
  const FitRow nearest = smallest(question());
  EXPECT_EQ(flags_of(nearest), "--batchsize 1 --accumulate 10 --recompute all");
  EXPECT_NEAR(nearest.memory.total(), 750 + 1 + 5, 1e-9);
  EXPECT_EQ(flags_that_fit(question(), nearest.memory.total()),
            std::vector<std::string>{flags_of(nearest)});
}

TEST(Fit, DividesStatesBetweenMachines) {
  const FitQuestion two = question(2);
  const double plain = row_of(two, {}).memory.total();
  EXPECT_EQ(plain, 860);
  // Nothing smaller than a batch of 1 without sharding: 756 bytes.
  const std::vector<std::string> flags = flags_that_fit(two, 600);
  ASSERT_FALSE(flags.empty());
  for (const std::string& each : flags) EXPECT_NE(each.find("--shard"), std::string::npos) << each;
  double last = 0;
  for (const FitRow& row : settings_that_fit(two, 600)) {
    EXPECT_GE(row.prediction.step, last);
    last = row.prediction.step;
  }
}

TEST(Fit, PrintsATable) {
  const std::string text = fit_text(question(), settings_that_fit(question(), 855), 855);
  EXPECT_EQ(
      text.find("fit: 0.0 MB of memory in each machine, 1 of 1 rank(s) on it, 10 examples per "
                "rank in a step; the fastest settings first\n"),
      0U)
      << text;
  EXPECT_NE(text.find("  3750.00       0.0     2 of 3  --batchsize 10 --recompute auto\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nbf16: with the compute times of the trace"), std::string::npos) << text;
}

TEST(WithPasses, GradientsTravelInTheLastOne) {
  const Workload workload{.forward = 1, .backward = 2, .ranges = {{100, 1}, {100, 2}}};
  const Workload four = with_passes(workload, 4);
  EXPECT_NEAR(four.ranges[0].ready, 1.75, 1e-12);
  EXPECT_NEAR(four.ranges[1].ready, 2, 1e-12);
  EXPECT_EQ(with_passes(workload, 1).ranges[0].ready, 1);
}

TEST(WithRecompute, StretchesTheBackwardPass) {
  const Workload workload{.forward = 1, .backward = 2, .ranges = {{100, 1}, {100, 2}}};
  const Workload longer = with_recompute(workload, 1);
  EXPECT_EQ(longer.backward, 3);
  EXPECT_NEAR(longer.ranges[0].ready, 1.5, 1e-12);
  EXPECT_EQ(with_recompute(workload, -3).backward, 0);
}

TEST(PredictSharded, GathersWeightsAfterTheUpdate) {
  const Link slow{.latency = 0, .bytes_per_second = 1e6};
  const Cluster cluster{.between = slow, .inside = slow, .algorithm = AllreduceAlgorithm::ring};
  const Workload workload{.forward = 1, .backward = 2, .update = 0.5, .ranges = {{1e6, 2}}};
  // A ring of two sends 1 MB in 1 s: half of it after the backward pass, half after the update.
  EXPECT_NEAR(predict(workload, 2, cluster, true).step, 4.5, 1e-12);
  const Prediction once = predict_sharded(workload, 2, cluster, true, {.weight_bytes = 1e6});
  EXPECT_NEAR(once.step, 4.5 - 0.25, 1e-12);
  EXPECT_NEAR(once.exchange, 1, 1e-12);
}

// Each pass of a step that divides gradients sends all of them.
TEST(PredictSharded, ExchangesEachPass) {
  const Link slow{.latency = 0, .bytes_per_second = 1e6};
  const Cluster cluster{.between = slow, .inside = slow, .algorithm = AllreduceAlgorithm::ring};
  const Workload workload{
      .forward = 1, .backward = 2, .update = 0.5, .ranges = {{1e6, 1}, {1e6, 2}}};
  // 1 MB is reduce-scattered in 0.5 s. In a pass of 1.5 s, the first range does not wait for the
  // second, which is exposed; 2 MB of weights follow in 1 s.
  const Prediction two =
      predict_sharded(workload, 2, cluster, true, {.weight_bytes = 2e6, .exchanged_passes = 2});
  EXPECT_NEAR(two.step, 2 * (1.5 + 0.5) + 0.25 + 1, 1e-12);
  EXPECT_NEAR(two.exchange, 2 * 1 + 1, 1e-12);
  EXPECT_NEAR(two.exposed, 2 * 0.5 + 1, 1e-12);
}

}  // namespace
}  // namespace tasuki::simulate
