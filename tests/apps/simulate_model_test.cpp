// The model behind `tasuki-simulate`: cases with a closed form, and what it makes of a trace.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/error.hpp"
#include "tools/simulate/calibration.hpp"
#include "tools/simulate/report.hpp"

namespace tasuki::simulate {
namespace {

// 1 MB/s, 1 ms: seconds are easy to count.
constexpr Link slow{.latency = 1e-3, .bytes_per_second = 1e6};
constexpr Cluster slow_nodes{.between = slow, .inside = slow};

Workload one_range() {
  return {.input = 0.1, .forward = 1, .backward = 2, .update = 0.5, .ranges = {{1e6, 2}}};
}

TEST(ExpectedMaximum, MatchesKnownValuesForNormalNumbers) {
  EXPECT_NEAR(expected_maximum(1), 0, 1e-9);
  EXPECT_NEAR(expected_maximum(2), 1 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_maximum(3), 1.5 / std::sqrt(std::numbers::pi), 1e-9);
  // Tippett 1925, Teichroew 1956.
  EXPECT_NEAR(expected_maximum(10), 1.53875, 1e-5);
  EXPECT_NEAR(expected_maximum(1000), 3.24144, 1e-5);
  for (double count = 2; count <= 16'384; count *= 2) {
    EXPECT_GT(expected_maximum(count), expected_maximum(count / 2));
    EXPECT_LT(expected_maximum(count), std::sqrt(2 * std::log(count)));
  }
  EXPECT_THROW((void)expected_maximum(0), Error);
}

TEST(Predict, OneRankHasNoExchangeOrWait) {
  Workload workload = one_range();
  workload.jitter = 1;
  const Prediction alone = predict(workload, 1, slow_nodes, true);
  EXPECT_DOUBLE_EQ(alone.step, 3.6);
  EXPECT_EQ(alone.exchange, 0);
  EXPECT_EQ(alone.waiting, 0);
}

TEST(PredictLocal, SharesAnExchangeAmongSteps) {
  // Two nodes of two ranks: 3.6 s and 1.001 s for the gradients inside a node; then two allreduces
  // of 1 MB, inside and between nodes.
  const Cluster nodes{.ranks_per_node = 2, .between = slow, .inside = slow};
  const double inside = predict(one_range(), 2, nodes, false).step;
  const double between = exchange_seconds(1e6, 4, nodes);
  EXPECT_NEAR(inside, 3.6 + exchange_seconds(1e6, 2, nodes), 1e-12);
  const Prediction local = predict_local(one_range(), 4, nodes, false, {.every = 10});
  EXPECT_NEAR(local.step, inside + between / 10, 1e-12);
  EXPECT_NEAR(local.exposed, exchange_seconds(1e6, 2, nodes) + between / 10, 1e-12);
  EXPECT_NEAR(predict_local(one_range(), 4, nodes, false, {.every = 10, .overlaps = true}).step,
              inside, 1e-12);
  // One node synchronises with nobody.
  EXPECT_EQ(predict_local(one_range(), 2, nodes, false, {.every = 10}).step, inside);
  // An exchange longer than its H steps.
  Cluster link = slow_nodes;
  link.between.bytes_per_second = 1e5;
  const Prediction late =
      predict_local(one_range(), 2, link, false, {.every = 2, .overlaps = true});
  EXPECT_NEAR(late.step, exchange_seconds(1e6, 2, link) / 2, 1e-12);
  // Jitter of sums of H steps.
  Workload uneven = one_range();
  uneven.jitter = 0.1;
  EXPECT_NEAR(predict_local(uneven, 2, slow_nodes, false, {.every = 4}).waiting,
              0.1 * expected_maximum(2) / 2, 1e-12);
}

TEST(Predict, LastRangeIsNeverHidden) {
  // Two ranks, directly: one message of 1 MB.
  for (const bool overlaps : {false, true}) {
    const Prediction two = predict(one_range(), 2, slow_nodes, overlaps);
    EXPECT_DOUBLE_EQ(two.exchange, 1.001);
    EXPECT_NEAR(two.exposed, 1.001, 1e-12);
    EXPECT_NEAR(two.step, 3.6 + 1.001, 1e-12);
  }
}

TEST(Predict, OverlapHidesRangesReadyInTime) {
  Workload workload = one_range();
  workload.ranges = {{0.5e6, 0.2}, {0.5e6, 0.4}, {1e6, 2}};
  // The first ends at 0.701, the second at 1.202, the third at 3.001.
  EXPECT_NEAR(end_of_exchange(workload, 2, slow_nodes, true), 3.001, 1e-12);
  EXPECT_NEAR(end_of_exchange(workload, 2, slow_nodes, false), 2 + 2.003, 1e-12);
  const Hiding all = hiding(workload, 2, slow_nodes, /*exposed=*/1.5025);
  EXPECT_NEAR(all.exchange, 2.003, 1e-12);
  EXPECT_NEAR(all.can_be_hidden, 1.002, 1e-12);
  EXPECT_NEAR(all.hidden, 0.5005, 1e-12);
  EXPECT_EQ(describe(all),
            "of the exchange of 2003.0 ms, 1002.0 ms can be hidden; the run hid 500.5 ms = 50 %");
}

TEST(Predict, SimultaneousRangesAreSentInTurn) {
  Workload workload = one_range();
  workload.ranges = {{1e6, 0}, {1e6, 0}, {1e6, 0}, {1e6, 0}};
  EXPECT_NEAR(end_of_exchange(workload, 2, slow_nodes, true), 4.004, 1e-12);
  EXPECT_NEAR(predict(workload, 2, slow_nodes, true).exposed, 2.004, 1e-12);
}

TEST(Predict, WaitsForTheSlowestRank) {
  Workload workload = one_range();
  workload.jitter = 0.3;
  const Prediction two = predict(workload, 2, slow_nodes, true);
  EXPECT_NEAR(two.waiting, 0.3 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(two.step, 3.6 + 1.001 + two.waiting, 1e-12);
}

TEST(Predict, StepTimeGrowsWithRanksAndWithoutOverlap) {
  Workload workload = one_range();
  workload.jitter = 0.1;
  workload.ranges = {{0.5e6, 1}, {0.5e6, 2}};
  for (const bool is_hierarchical : {true, false}) {
    Cluster cluster = slow_nodes;
    cluster.is_hierarchical = is_hierarchical;
    cluster.ranks_per_node = 2;
    double last = 0;
    for (int ranks = 1; ranks <= 16'384; ranks *= 2) {
      const double step = predict(workload, ranks, cluster, true).step;
      EXPECT_GT(step, last) << ranks;
      EXPECT_LE(step, predict(workload, ranks, cluster, false).step) << ranks;
      last = step;
    }
  }
}

TEST(ExchangeSeconds, AddsTheRingInsideNodes) {
  Cluster cluster{.ranks_per_node = 4,
                  .between = slow,
                  .inside = {.latency = 1e-6, .bytes_per_second = 1e9},
                  .algorithm = AllreduceAlgorithm::ring};
  const double inside = 6e-6 + 1.5e-3;
  EXPECT_NEAR(exchange_seconds(1e6, 4, cluster), inside, 1e-12);
  EXPECT_NEAR(exchange_seconds(1e6, 8, cluster), inside + 2e-3 + 1, 1e-12);
  cluster.is_hierarchical = false;
  EXPECT_NEAR(exchange_seconds(1e6, 8, cluster), 14e-3 + 1.75, 1e-12);
  cluster.algorithm = AllreduceAlgorithm::direct;  // four ranks share the link
  EXPECT_NEAR(exchange_seconds(1e6, 8, cluster), 1e-3 + 28, 1e-12);
  EXPECT_EQ(exchange_seconds(1e6, 1, cluster), 0);
}

TEST(Rows, CompareWeakAndStrongScalingByThroughput) {
  Question question{.one = one_range(), .several = one_range(), .cluster = slow_nodes, .batch = 10};
  const std::vector<PredictionRow> weak = rows_of(question, {1, 2});
  EXPECT_DOUBLE_EQ(weak[0].efficiency, 1);
  EXPECT_NEAR(weak[0].examples_per_second, 10 / 3.6, 1e-12);
  EXPECT_NEAR(weak[1].efficiency, 3.6 / 4.601, 1e-12);
  EXPECT_EQ(weak[1].nodes, 2);

  question.global_batch = 20;  // one rank computes 6.2 s and updates 0.5, two half of the first
  const std::vector<PredictionRow> strong = rows_of(question, {1, 2});
  EXPECT_NEAR(strong[0].prediction.step, 6.7, 1e-12);
  EXPECT_NEAR(strong[1].prediction.step, 4.601, 1e-12);
  EXPECT_NEAR(strong[1].efficiency, 6.7 / (2 * 4.601), 1e-12);

  question.several.jitter = 0.2;
  EXPECT_LT(rows_of(question, {2})[0].efficiency, strong[1].efficiency);
  EXPECT_NEAR(rows_of(question, {2})[0].without_jitter, strong[1].efficiency, 1e-12);
}

// A trace of `ranks` ranks, each on another host: steps of 10 ms; in every other step rank 1's
// forward pass is `late_us` longer. Two ranges of 1000 elements are ready 1 and 2 ms after the
// backward pass begins and are exchanged in 1 ms each.
std::string trace_of(int ranks, int steps, double late_us) {
  std::string hosts, events;
  const auto add = [&](int rank, int row, const char* name, double begin, double length,
                       const std::string& more = "") {
    events += fmt::format(R"({}{{"name":"{}","pid":{},"tid":{},"ts":{},"ph":"X","dur":{}{}}})",
                          events.empty() ? "" : ",", name, rank, row * 1000, begin, length, more);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    hosts += fmt::format(R"({}{{"host":"node{}"}})", rank == 0 ? "" : ",", rank);
    for (int step = 0; step < steps; ++step) {
      const double late = rank == 1 && step % 2 == 0 ? late_us : 0, begin = step * 20'000.0;
      const double backward = begin + 1100 + late;
      add(rank, 4, "input", begin, 100);
      add(rank, 4, "forward", begin + 100, 1000 + late);
      add(rank, 4, "backward", backward, 2000);
      for (int range = 0; range < 2; ++range) {
        const auto which =
            fmt::format(R"(,"args":{{"number":{},"bytes":4000}})", 1000 - 1000 * range);
        add(rank, 2, "complete", backward + 1000 * (range + 1), 0, which);
        add(rank, 3, "sum of a range", backward + 2000 + 1000 * range, 1000, which);
      }
      add(rank, 4, "exchange", backward + 2000, 2000);
      add(rank, 4, "update", backward + 4000, 500);
    }
  }
  return fmt::format(R"({{"otherData":{{"exchange":"whole","ranks":[{}]}},"traceEvents":[{}]}})",
                     hosts, events);
}

TEST(Calibration, DerivesTheModelFromATrace) {
  const TracedRun run = parse_trace(trace_of(2, 40, 0), "t.json");
  EXPECT_EQ(run.hosts, 2);
  EXPECT_EQ(run.exchange, "whole");
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[1].size(), 20U);  // the later half
  const Workload workload = workload_of(run);
  EXPECT_NEAR(workload.input, 1e-4, 1e-9);
  EXPECT_NEAR(workload.forward, 1e-3, 1e-9);
  EXPECT_NEAR(workload.backward, 2e-3, 1e-9);
  EXPECT_NEAR(workload.update, 5e-4, 1e-9);
  EXPECT_NEAR(workload.jitter, 0, 1e-9);
  ASSERT_EQ(workload.ranges.size(), 2U);
  EXPECT_EQ(workload.ranges[0].bytes, 4000);
  EXPECT_NEAR(workload.ranges[0].ready, 1e-3, 1e-9);
  EXPECT_NEAR(workload.ranges[1].ready, 2e-3, 1e-9);
  // 4000 bytes in 1 ms less 0.2 of latency.
  EXPECT_NEAR(fitted_rate(run, 2e-4, {}).value(), 4000 / 0.8e-3, 1);
  EXPECT_NEAR(measured_step(run).step, 5.6e-3, 1e-9);
  EXPECT_NEAR(measured_step(run).exposed, 2e-3, 1e-9);
}

TEST(Calibration, MeasuresJitterBetweenRanksInAStep) {
  // Half of the steps differ by 1 ms: deviations of 0.5 from their mean, of both signs.
  const Workload workload = workload_of(parse_trace(trace_of(2, 80, 1000), "t.json"));
  EXPECT_NEAR(workload.jitter, 0.5e-3 * std::numbers::sqrt2, 1e-9);
  // A rank alone: distances from the usual step.
  EXPECT_NEAR(workload_of(parse_trace(trace_of(1, 80, 1000), "t.json")).jitter, 0, 1e-9);
}

// A trace of one rank with 4 examples in each pass of a step, which keeps 1000 bytes; of its two
// blocks, the second is recomputed.
std::string trace_with_memory(int passes = 1, int threads = 1) {
  std::string events;
  const auto add = [&](const char* name, int thread, double begin, double length,
                       const std::string& more = "") {
    events += fmt::format(R"({}{{"name":"{}","pid":0,"tid":{},"ts":{},"dur":{}{}}})",
                          events.empty() ? "" : ",", name, thread, begin, length, more);
  };
  for (int step = 0; step < 8; ++step) {
    for (int pass = 0; pass < passes; ++pass) {
      const double begin = step * 20'000.0 + pass * 5000;
      const auto numbered = [](int number, int bytes) {
        return fmt::format(R"(,"args":{{"number":{},"bytes":{}}})", number, bytes);
      };
      add("input", 4000, begin, 100);
      add("forward", 4000, begin + 100, 1000);
      add("block", 5001, begin + 200, 200, numbered(0, 400));
      add("activations", 5001 + pass % threads, begin + 1100, 0, numbered(4, 1000));
      add("backward", 4000, begin + 1100, 2000);
      add("block again", 5001, begin + 1200, 300, numbered(1, 600));
    }
    add("update", 4000, step * 20'000.0 + passes * 5000, 500);
  }
  return R"({"otherData":{"ranks":[{"host":"a","memory":{"weights":80,"rounded":0,"gradients":80,)"
         R"("all_gradients":80,"slots":30,"states":160,"all_states":160,"step":2000,)"
         R"("process":5000}}]},"traceEvents":[)" +
         events + "]}";
}

TEST(Calibration, FindsMemoryForEachExample) {
  const TracedRun run = parse_trace(trace_with_memory(), "t.json");
  EXPECT_EQ(examples_of(run), 4);
  EXPECT_NEAR(recomputed_seconds(run), 3e-4, 1e-9);
  const ModelMemory model = memory_of(run);
  EXPECT_EQ(model.weights, 80);
  EXPECT_EQ(model.gradients, 80);
  EXPECT_EQ(model.travelling, 30);
  EXPECT_EQ(model.states, 160);
  EXPECT_FALSE(model.is_bf16);
  EXPECT_NEAR(model.activations, (1000 + 600) / 4.0, 1e-9);
  EXPECT_NEAR(model.working, (2000 - 1000 - 600) / 4.0, 1e-9);
  EXPECT_NEAR(model.other, 5000 - 80 - 80 - 160 - 2000, 1e-9);
  ASSERT_EQ(model.blocks.size(), 2U);
  EXPECT_NEAR(model.blocks[0].bytes, 100, 1e-9);
  EXPECT_NEAR(model.blocks[0].seconds, 5e-5, 1e-9);
  EXPECT_NEAR(model.blocks[1].bytes, 150, 1e-9);
  EXPECT_NEAR(model.blocks[1].seconds, 7.5e-5, 1e-9);
  // As traced.
  const MachineMemory traced = memory_of(model, machine_of(1, 1), {.recomputed = {false, true}}, 4);
  EXPECT_NEAR(traced.total() - traced.checkpoint, 5000, 1e-9);
}

TEST(Calibration, SaysWhichRunsHaveNoMemoryOfAPass) {
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {trace_of(1, 40, 0), "the memory of each rank"},
           {trace_with_memory(2), "found 2 passes"},
           {trace_with_memory(2, 2), "several threads"}}) {
    const TracedRun run = parse_trace(text, "t.json");
    try {
      (void)memory_of(run);
      FAIL() << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
}

TEST(Calibration, DerivesRatesOnlyFromUndisturbedExchanges) {
  TracedRun run = parse_trace(trace_of(2, 40, 0), "t.json");
  run.hosts = 1;
  EXPECT_FALSE(fitted_rate(run, 0, {}));
  run.hosts = 2;
  for (auto& step : run.steps[1])
    for (TracedRange& range : step.ranges) range.begin = step.backward_begin;
  EXPECT_FALSE(fitted_rate(run, 0, {}));
  EXPECT_FALSE(fitted_rate(parse_trace(trace_of(1, 40, 0), "t.json"), 0, {}));
}

void expect_error(const std::string& text, const std::string& says) {
  try {
    (void)parse_trace(text, "t.json");
    FAIL() << says;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(std::string(error.what()).find("t.json: expected"), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST(ParseTrace, NamesDamagedAndEmptyFiles) {
  expect_error("", "--trace");
  expect_error("[]", "--trace");
  expect_error(trace_of(2, 40, 0).substr(0, 3000), "--trace");
  expect_error(R"({"otherData":{"ranks":[{"host":"a"}]},"traceEvents":[{"ts":1,"pid":0}]})",
               "name");
  expect_error(R"({"otherData":{"ranks":[{"host":"a"}]},"traceEvents":[]})", "found 0");
  expect_error(trace_of(2, 3, 0), "found 3");
  expect_error(R"({"otherData":{"ranks":[{"host":"a","memory":{"weights":-2}}]},"traceEvents":[]})",
               "-2");
}

}  // namespace
}  // namespace tasuki::simulate
