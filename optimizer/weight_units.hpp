// Units of weights: the parameters that nodes gather together (divided_weights.hpp).
#pragma once

#include <string>
#include <vector>

#include "core/range.hpp"
#include "optimizer/arena.hpp"

namespace tasuki {

// Consecutive parameters of an arena.
struct WeightUnit {
  std::string name;  // the path that its parameters have in common, "predictor/h3"; may be empty
  Range elements;    // of the arena
  Range entries;     // numbers of ParameterArena::entries()
};

// Divides an arena's parameters into units, in its order. `patterns` (matches() in
// parameter_group.hpp): all parameters below a module whose path matches one are a unit. Other
// modules are units of up to `target` bytes: a larger one is divided into the modules below it, and
// small neighbours of one module share a unit. The parameters that a module has itself are never
// divided, because its functions use them together.
std::vector<WeightUnit> weight_units(const std::vector<ParameterArena::Entry>& entries,
                                     std::int64_t target,
                                     const std::vector<std::string>& patterns = {});

// A twelfth of the parameters, so that two units, one in use and one under way, are small beside a
// node's slice; at least 256 KiB, which hides the latency of a message.
std::int64_t default_unit_bytes(const std::vector<ParameterArena::Entry>& entries);

}  // namespace tasuki
