// A backward pass that reaches only some of the parameters; Variable::backward() reaches all.
#pragma once

#include <functional>

#include "nn/parameter.hpp"
#include "nn/variable.hpp"

namespace tasuki {

struct BackwardPass {
  Tensor seed;                         // the gradient of the result, on its device
  Variable::GradientReady ready = {};  // as of Variable::backward()
  Variable::BetweenFunctions between = {};
  // Whether a parameter is left out: neither its gradient is computed nor what only such gradients
  // need. Empty: none is.
  std::function<bool(const Parameter&)> leaves_out = {};
  bool keeps_graph = false;  // for another pass; else the graph is freed on the way
};

// Variable::backward() with parameters left out and the graph kept for other passes (PyTorch's
// backward(inputs=..., retain_graph=True)). So two losses that share a part of their graph each
// reach their own parameters. Functions between ranks (parallel/functions) may be
// in only one of these passes. After an exception a graph that was kept can be passed through
// again; its leaves have some of the gradients of the pass that failed.
void run_backward(const Variable& result, const BackwardPass& pass);

}  // namespace tasuki
