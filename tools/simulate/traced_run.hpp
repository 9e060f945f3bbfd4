// The steps of a run, from a file of --trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki::simulate {

// Times in seconds; moments by the file's clock.
struct TracedRange {
  std::int64_t first = 0;       // first element of the gradients; identifies the range
  double bytes = 0;             // of float32 gradients
  double ready = -1;            // when its last gradient was written; -1: not in the file
  double begin = -1, end = -1;  // of its exchange; -1: not in the file
};

// A block of the model (nn/recompute.hpp) in a step.
struct TracedBlock {
  double bytes = 0;    // that it keeps beside its results; the most of the step's passes
  double seconds = 0;  // of its forward passes with a graph, in all passes of the step
  bool is_recomputed = false;
};

struct TracedStep {
  double begin = 0, end = 0;
  double input = 0, forward = 0, backward = 0, exchange = 0, update = 0;
  double backward_begin = 0;          // of the last backward pass, during which gradients travel
  std::vector<TracedRange> ranges{};  // in the order of exchange
  std::map<std::int64_t, TracedBlock> blocks{};  // by number
  std::int64_t passes = 0, examples = 0;         // of this rank; 0: not in the file
  double activations = 0;  // bytes that a forward pass kept; the most of the step's passes
  double compute() const { return input + forward + backward; }
};

// Bytes of a rank (training/extensions/trace_file.hpp).
struct TracedMemory {
  double weights = 0, rounded = 0, gradients = 0, all_gradients = 0, slots = 0, states = 0,
         all_states = 0, step = 0, process = 0;
};

struct TracedRun {
  std::string file;
  int hosts = 1;
  std::string exchange{};                        // its --exchange; empty: none
  std::vector<std::vector<TracedStep>> steps{};  // of each rank, as many for all of them
  std::vector<TracedMemory> memory{};            // of each rank, or of none
  bool computes_in_threads = false;              // several threads of a rank compute with the model
};

// Reads the contents of a trace and keeps the later half of its steps, because in the earlier ones
// the run may have tried exchange modes. Errors call the trace `file`. A text that is not a trace,
// or a trace with fewer than 4 steps on CPUs, is an error of kind data.
TracedRun parse_trace(std::string_view text, const std::string& file);

}  // namespace tasuki::simulate
