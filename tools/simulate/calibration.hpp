// Calibrates the model from traces of real runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/simulate/memory.hpp"
#include "tools/simulate/model.hpp"
#include "tools/simulate/traced_run.hpp"

namespace tasuki::simulate {

double median(std::vector<double> values);  // 0 if there are none

// Medians over the steps and ranks of a run, and the ranges of gradients if the run exchanges any.
// Jitter is the spread of ranks in the same step or, in a run of one rank, of its steps: half the
// distance between the quantiles at 15.9 and 84.1 %. For normal numbers this is the standard
// deviation, and a few outliers do not change it.
Workload workload_of(const TracedRun& run);

// The memory of the run's largest rank, for each example of it where that says so. Blocks that the
// run recomputed count as if it had kept them. Errors, of kind data, name what the trace lacks:
// memory (on CPUs), a single thread of each rank that computes with the model, one pass in a step.
ModelMemory memory_of(const TracedRun& run);
// Examples of a rank in a step; empty if the file does not say.
std::optional<std::int64_t> examples_of(const TracedRun& run);
// Seconds of a step in which blocks were run again.
double recomputed_seconds(const TracedRun& run);

// The rate of the link between two or more nodes with one rank each: the bytes that the algorithm
// sends, divided by the time of the ranges without the latencies of its steps; the median over the
// steps. A range takes from the last rank's beginning to the last rank's end. Only ranges that
// every rank began after its backward pass count, because nothing else slows them down. Empty if
// there are none, or if ranks of a node exchanged gradients in shared memory first.
std::optional<double> fitted_rate(const TracedRun& run, double latency,
                                  std::optional<AllreduceAlgorithm> algorithm);

// Medians over the steps of a run with an exchange, in seconds.
struct MeasuredStep {
  double step = 0;     // from its input to the end of its update; mean of the ranks
  double exposed = 0;  // waiting for the exchange after the backward pass; mean of the ranks
};
MeasuredStep measured_step(const TracedRun& run);

// How much of the exchange overlap can hide, and how much the run hid.
struct Hiding {
  double exchange = 0, can_be_hidden = 0, hidden = 0;  // seconds
};
Hiding hiding(const Workload& workload, int ranks, const Cluster& cluster, double exposed);

}  // namespace tasuki::simulate
