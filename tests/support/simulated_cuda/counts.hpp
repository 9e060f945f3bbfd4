// What a process has asked the simulated GPU for. With SIMULATED_CUDA_COUNTS=FILE the process
// writes it there when it ends, a name and a number per line: what two runs of different length
// differ by is what their additional steps cost.
#pragma once

#include <atomic>
#include <cstdint>

namespace tasuki::simulated {

struct Counts {
  std::atomic<std::int64_t> operations =
      0;                                 // of streams: kernels, copies, fillings; also in graphs
  std::atomic<std::int64_t> copies = 0;  // outside of graphs
  std::atomic<std::int64_t> graphs = 0;  // launched
  std::atomic<std::int64_t> allocations = 0;  // of device memory and of pinned host memory
  std::atomic<std::int64_t> waits = 0;        // for a stream, an event or the device
};
Counts& counts();

}  // namespace tasuki::simulated
