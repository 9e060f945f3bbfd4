// What flags of bench_allreduce choose: names separated by commas, or `all`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "communicator/algorithms/allreduce_algorithm.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::program {

// "a,b" as a list; "all" as `all`.
std::vector<std::string> names_in(const std::string& text, const std::vector<std::string>& all);

// Empty: `auto`.
using Algorithms = std::vector<std::optional<AllreduceAlgorithm>>;
// Of --allreduce and --wire-dtype. An unknown name is a usage error.
Algorithms algorithms_in(const std::string& text);
std::vector<DType> wires_in(const std::string& text);

}  // namespace tasuki::program
