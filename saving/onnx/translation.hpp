// Translates the calls of a forward pass to ONNX's operators.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/call_recorder.hpp"
#include "nn/module.hpp"
#include "saving/onnx/graph.hpp"

namespace tasuki::onnx_graph {

// A forward pass: its inputs and results, with names, and the calls between them.
struct Pass {
  std::vector<std::pair<std::string, Tensor>> inputs, results;
  std::vector<Call> calls;
};

// Axes that differ between two passes of the same network are named, others keep their size.
// `axis_names`: of each input's axes that differ, in order. Names of weights are their paths in
// `model`; nodes are named after the layer whose weights they use. A usage error names a function
// that has no form in ONNX, and one whose settings depend on an axis that differs.
Graph translate(const Module& model, const Pass& pass, const Pass& larger,
                const std::vector<std::vector<std::string>>& axis_names);

}  // namespace tasuki::onnx_graph
