// Memory of a training step, and the largest batch that there is room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tasuki/dataset/dataset.hpp"
#include "tasuki/training/updater.hpp"

namespace tasuki {

// `n` examples of zeros, floating-point values that are no targets as `dtype`. Ragged fields are as
// long as they can be, or as Field::pad_to where that is not known.
Batch zero_batch(std::int64_t n, const DatasetHeader& header, DType dtype, Device device);
// Bytes of one such example in float32.
std::size_t batch_bytes(const DatasetHeader& header);

struct StepMemory {
  std::size_t held =
      0;  // bytes of a batch and of what its forward pass keeps for the backward pass
  std::size_t peak = 0;  // the most in use in a step, parameters and all else included
};

// Runs `n` examples of zeros, as `dtype`, forward and backward; nothing is updated but gradients
// and batch normalisation's averages. Throws OutOfMemory.
StepMemory measure_step(std::int64_t n, const DatasetHeader& header, Device device, DType dtype,
                        const LossFunction& loss);

// What find_largest_batch needs to know.
struct BatchSearch {
  // The most bytes in use in a step of n examples, in each place (a device's memory, the host's);
  // throws OutOfMemory or std::bad_alloc.
  std::function<std::vector<std::size_t>(std::int64_t n)> peaks_of;
  std::vector<std::size_t> capacities;  // bytes that may be in use at once, of the same places
  std::int64_t limit = 1;               // the most examples that make sense
  // The least of all ranks' values. Collective; a single process gives back what it is given.
  std::function<std::int64_t(std::int64_t)> least = [](std::int64_t n) { return n; };
  // Told of each size that was foretold before a real step of it, which may take a while.
  std::function<void(std::int64_t n)> trying = [](std::int64_t) {};
};

// The largest number of examples per rank that all ranks have room for; 0 when there is none for a
// single one. Memory grows in proportion to the batch, so two small steps foretell it, by the place
// that is full first; a real step of the size found must succeed on every rank, else it is made
// smaller. Collective.
std::int64_t find_largest_batch(const BatchSearch& search);

}  // namespace tasuki
