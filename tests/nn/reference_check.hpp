// Compares a function with float64 values of an outside framework, and its gradients with
// directional central differences of itself.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "nn/variable.hpp"
#include "reference.hpp"

namespace tasuki::testing {

inline constexpr double reference_tolerance = 1e-5;
inline constexpr double difference_tolerance = 1e-2;
inline constexpr double rounded_tolerance = 1e-2;

// A function under test, with a case's settings applied: from inputs by name to the result.
using Inputs = std::map<std::string, Variable>;
using Subject = std::function<Variable(const Inputs&, const ReferenceCase&)>;

// An input that a case may leave out; then undefined.
Variable optional(const Inputs& in, const std::string& name);

void check_case(const Subject& run, const ReferenceCase& test);
// With activations of bfloat16. Targets are float32, as are parameters, whose names begin with w, b
// or g, and their gradients. The case's inputs must be numbers that bfloat16 has.
void check_rounded_case(const Subject& run, const ReferenceCase& test);
// All cases of tests/nn/references/<file>.json.
void check_file(const std::string& file, const Subject& run);

}  // namespace tasuki::testing
