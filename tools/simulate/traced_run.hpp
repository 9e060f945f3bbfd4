// The steps of a run, from a file of --trace.
#pragma once

#include <cstdint>
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

struct TracedStep {
  double begin = 0, end = 0;
  double input = 0, forward = 0, backward = 0, exchange = 0, update = 0;
  double backward_begin = 0;          // of the last backward pass, during which gradients travel
  std::vector<TracedRange> ranges{};  // in the order of exchange
  double compute() const { return input + forward + backward; }
};

struct TracedRun {
  std::string file;
  int hosts = 1;
  std::string exchange{};                        // its --exchange; empty: none
  std::vector<std::vector<TracedStep>> steps{};  // of each rank, as many for all of them
};

// Reads the contents of a trace and keeps the later half of its steps, because in the earlier ones
// the run may have tried exchange modes. Errors call the trace `file`. A text that is not a trace,
// or a trace with fewer than 4 steps on CPUs, is an error of kind data.
TracedRun parse_trace(std::string_view text, const std::string& file);

}  // namespace tasuki::simulate
