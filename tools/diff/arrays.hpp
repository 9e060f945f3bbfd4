// By how much arrays of two files differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saving/array_source.hpp"
#include "tensor/tensor.hpp"

namespace tasuki::diff {

struct ArrayDifference {
  std::string name;  // "predictor/l1/W", or "predictor/l1/W/m" for an optimizer's state
  std::string what;  // why elements were not compared ("only in the first"); empty: they were
  Shape shape = {};
  DType dtype = DType::float32;
  std::int64_t differing = 0;              // elements whose bits differ
  std::vector<std::int64_t> first = {};    // the index of the first one, along each axis
  double absolute = 0, relative = 0;       // the largest differences of finite elements
  std::optional<std::uint64_t> ulps = {};  // the largest one in units in the last place
  std::int64_t not_finite = 0;             // differing elements of which one is not finite
};

// Nothing if they have the same type, shape and bits. A relative difference is relative to the
// larger of the two numbers.
std::optional<ArrayDifference> compare_arrays(const std::string& name, const Tensor& a,
                                              const Tensor& b);

// The arrays of two saved states or model files.
struct ArraysComparison {
  std::int64_t compared = 0;               // arrays
  std::vector<ArrayDifference> differing;  // in the model's order: weights, then states
};
// Of snapshots and checkpoints, models and optimizers are compared; of other files, all arrays.
// Texts are left out, and what belongs to a rank.
ArraysComparison compare_sources(const ArraySource& a, const ArraySource& b);

// "3 of 784 elements, first [0, 3]; largest difference 1.2e-07, relative 3.1e-06, 4 ulp"
std::string text_of(const ArrayDifference& difference);

}  // namespace tasuki::diff
