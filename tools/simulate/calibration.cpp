#include "tools/simulate/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/error.hpp"

namespace tasuki::simulate {
namespace {

// Quantile at `share` (0 to 1), interpolated linearly between values; 0 if there are no values.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - std::floor(place));
}

double median_of(const TracedRun& run, const std::function<double(const TracedStep&)>& value) {
  std::vector<double> values;
  for (const auto& steps : run.steps)
    for (const TracedStep& step : steps) values.push_back(value(step));
  return median(std::move(values));
}

double jitter_of(const TracedRun& run) {
  const std::size_t ranks = run.steps.size();
  std::vector<double> differences;
  const double usual = median_of(run, &TracedStep::compute);
  for (std::size_t i = 0; i < run.steps.front().size(); ++i) {
    double mean = 0;
    for (const auto& steps : run.steps) mean += steps[i].compute() / static_cast<double>(ranks);
    for (const auto& steps : run.steps)
      differences.push_back(steps[i].compute() - (ranks == 1 ? usual : mean));
  }
  const double spread = (quantile(differences, 0.841) - quantile(differences, 0.159)) / 2;
  // Each rank is compared with a mean that contains the rank itself.
  const auto count = static_cast<double>(ranks);
  return ranks == 1 ? spread : spread * std::sqrt(count / (count - 1));
}

std::vector<GradientRange> ranges_of(const TracedRun& run) {
  const TracedStep& last = run.steps.front().back();
  std::vector<GradientRange> ranges;
  for (const TracedRange& range : last.ranges) {
    std::vector<double> ready;
    for (const auto& steps : run.steps)
      for (const TracedStep& step : steps)
        for (const TracedRange& same : step.ranges)
          if (same.first == range.first && same.ready >= 0)
            ready.push_back(same.ready - step.backward_begin);
    // The loss does not use the range's parameters: it is complete when the backward pass has
    // ended.
    if (ready.empty()) ready.push_back(last.backward);
    ranges.push_back({.bytes = range.bytes, .ready = median(std::move(ready))});
  }
  return ranges;
}

// Steps and bytes of the ranges that were exchanged after the backward pass, and their time.
struct Alone {
  AllreduceCost cost;
  double seconds = 0;
};

Alone alone_in_step(const TracedRun& run, std::size_t step, double latency,
                    std::optional<AllreduceAlgorithm> algorithm) {
  const int ranks = static_cast<int>(run.steps.size());
  Alone sum;
  for (const TracedRange& range : run.steps.front()[step].ranges) {
    double begin = 0, end = 0;
    bool is_alone = true;
    for (const auto& steps : run.steps) {
      const TracedStep& own = steps[step];
      const auto same = std::ranges::find(own.ranges, range.first, &TracedRange::first);
      if (same == own.ranges.end() || same->begin < own.backward_begin + own.backward) {
        is_alone = false;
        break;
      }
      begin = std::max(begin, same->begin);
      end = std::max(end, same->end);
    }
    if (!is_alone) continue;
    const Link typical{.latency = latency, .bytes_per_second = gigabit_ethernet.bytes_per_second};
    const AllreduceCost cost = cost_of(
        algorithm.value_or(fastest_algorithm(range.bytes, ranks, typical)), range.bytes, ranks);
    sum.cost.steps += cost.steps;
    sum.cost.bytes += cost.bytes;
    sum.seconds += end - begin;
  }
  return sum;
}

void check_memory(const TracedRun& run) {
  if (run.memory.empty() || run.memory.size() != run.steps.size())
    fail(ErrorKind::data,
         "{}: expected the memory of each rank, which runs on CPUs note; trace the run again",
         run.file);
  if (run.computes_in_threads)
    fail(ErrorKind::data,
         "{}: expected ranks that compute one batch at a time, found several threads; trace a run "
         "without --reproducible and --devices",
         run.file);
  for (const auto& steps : run.steps)
    for (const TracedStep& step : steps)
      if (step.passes != 1 || step.examples < 1)
        fail(ErrorKind::data,
             "{}: expected steps of one pass that note their activations, found {} passes; trace a "
             "run without --accumulate of a program that has --recompute",
             run.file, step.passes);
}

const TracedStep& largest_step(const TracedRun& run) {
  const TracedStep* largest = &run.steps.front().front();
  for (const auto& steps : run.steps)
    for (const TracedStep& step : steps)
      if (step.activations > largest->activations) largest = &step;
  return *largest;
}

// For each example.
double seconds_of_block(const TracedRun& run, std::int64_t number) {
  std::vector<double> seconds;
  for (const auto& steps : run.steps)
    for (const TracedStep& step : steps)
      if (const auto found = step.blocks.find(number); found != step.blocks.end())
        seconds.push_back(found->second.seconds / static_cast<double>(step.examples));
  return median(std::move(seconds));
}

}  // namespace

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

Workload workload_of(const TracedRun& run) {
  return {.input = median_of(run, [](const auto& step) { return step.input; }),
          .forward = median_of(run, [](const auto& step) { return step.forward; }),
          .backward = median_of(run, [](const auto& step) { return step.backward; }),
          .update = median_of(run, [](const auto& step) { return step.update; }),
          .jitter = jitter_of(run),
          .ranges = ranges_of(run)};
}

std::optional<std::int64_t> examples_of(const TracedRun& run) {
  const double examples =
      median_of(run, [](const auto& step) { return static_cast<double>(step.examples); });
  if (examples < 1) return {};
  return static_cast<std::int64_t>(examples);
}

double recomputed_seconds(const TracedRun& run) {
  return median_of(run, [](const TracedStep& step) {
    double seconds = 0;
    for (const auto& [number, block] : step.blocks)
      if (block.is_recomputed) seconds += block.seconds;
    return seconds;
  });
}

ModelMemory memory_of(const TracedRun& run) {
  check_memory(run);
  const TracedStep& step = largest_step(run);
  const auto examples = static_cast<double>(step.examples);
  ModelMemory model;
  double kept = step.activations, again = 0;
  for (const auto& [number, block] : step.blocks) {
    model.blocks.push_back({block.bytes / examples, seconds_of_block(run, number)});
    if (!block.is_recomputed) continue;
    kept += block.bytes;
    again = std::max(again, block.bytes);
  }
  model.activations = kept / examples;
  for (const TracedMemory& rank : run.memory) {
    model.weights = std::max(model.weights, rank.weights);
    model.gradients = std::max(model.gradients, rank.all_gradients);
    model.travelling = std::max(model.travelling, rank.slots);
    model.states = std::max(model.states, rank.all_states);
    model.is_bf16 = model.is_bf16 || rank.rounded > 0;
    model.working = std::max(model.working, (rank.step - step.activations - again) / examples);
    model.other = std::max(model.other, rank.process - rank.weights - rank.rounded -
                                            rank.gradients - rank.states - rank.step);
  }
  return model;
}

std::optional<double> fitted_rate(const TracedRun& run, double latency,
                                  std::optional<AllreduceAlgorithm> algorithm) {
  if (run.hosts < 2 || run.hosts != static_cast<int>(run.steps.size())) return {};
  std::vector<double> rates;
  for (std::size_t step = 0; step < run.steps.front().size(); ++step) {
    const Alone alone = alone_in_step(run, step, latency, algorithm);
    const double seconds = alone.seconds - alone.cost.steps * latency;
    if (seconds > 0) rates.push_back(alone.cost.bytes / seconds);
  }
  if (rates.empty()) return {};
  return median(std::move(rates));
}

MeasuredStep measured_step(const TracedRun& run) {
  return {.step = median_of(run, [](const auto& step) { return step.end - step.begin; }),
          .exposed = median_of(run, [](const auto& step) { return step.exchange; })};
}

Hiding hiding(const Workload& workload, int ranks, const Cluster& cluster, double exposed) {
  const Prediction best = predict(workload, ranks, cluster, /*overlaps=*/true);
  return {.exchange = best.exchange,
          .can_be_hidden = best.exchange - best.exposed,
          .hidden = std::max(0.0, best.exchange - exposed)};
}

}  // namespace tasuki::simulate
