// Memory of a training step, and the largest batch that fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "dataset/data_source.hpp"
#include "training/updater.hpp"

namespace tasuki {

// The source's header, with ragged fields of any length as long as the longest example. Reads all
// examples if there are such fields.
DatasetHeader with_longest_examples(DataSource& source);
// The header of a data set, whose transforms do not change lengths. Reads only such fields.
DatasetHeader with_longest_examples(const Dataset& dataset);
// Whether a header has ragged fields of any length.
bool has_unknown_lengths(const DatasetHeader& header);

// `n` examples of zeros, with floating-point values that are not targets as `dtype`. Ragged fields
// have their maximal length, or Field::pad_to if there is none.
Batch zero_batch(std::int64_t n, const DatasetHeader& header, DType dtype, Device device);
// Bytes of one such example in float32.
std::size_t batch_bytes(const DatasetHeader& header);

struct BatchMemory {
  // Bytes of a batch, and of what its forward pass keeps for the backward pass.
  std::size_t held = 0;
  // Peak of all memory in use in a step, parameters included, and that without what was in use
  // before.
  std::size_t peak = 0, step = 0;
};

// Runs `n` examples of zeros, as `dtype`, forward and backward; nothing is updated but gradients
// and batch normalisation's averages. Throws OutOfMemory.
BatchMemory measure_step(std::int64_t n, const DatasetHeader& header, Device device, DType dtype,
                         const LossFunction& loss);

// Input of find_largest_batch.
struct BatchSearch {
  // Peak bytes in use in a step of n examples, in each place (a device's memory, the host's);
  // throws OutOfMemory or std::bad_alloc.
  std::function<std::vector<std::size_t>(std::int64_t n)> peaks_of;
  std::vector<std::size_t> capacities;  // bytes that may be in use at once, of the same places
  std::int64_t limit = 1;               // upper limit of the search, in examples
  // The smallest of all ranks' values. Collective; the identity in a single process.
  std::function<std::int64_t(std::int64_t)> least = [](std::int64_t n) { return n; };
  // Called with each predicted size before a real step of it, which may take a while.
  std::function<void(std::int64_t n)> trying = [](std::int64_t) {};
};

// The largest number of examples per rank that fits on all ranks; 0 if not even one does. Memory
// grows in proportion to the batch, so two small steps predict it, limited by the place that is
// full first; a real step of the size found must succeed on every rank, else the size is reduced.
// Collective.
std::int64_t find_largest_batch(const BatchSearch& search);

}  // namespace tasuki
