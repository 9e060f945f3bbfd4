// A backward pass for some of the parameters; Variable::backward() is for all of them.
#pragma once

#include <functional>
#include <span>

#include "nn/late_products.hpp"
#include "nn/parameter.hpp"
#include "nn/variable.hpp"

namespace tasuki {

struct BackwardPass {
  Tensor seed = {};                    // the gradient of the result, on its device
  Variable::GradientReady ready = {};  // as in Variable::backward()
  Variable::BetweenFunctions between = {};
  // Whether to leave a parameter out: its gradient is not computed, nor is anything that only such
  // gradients need. Empty: leaves none out.
  std::function<bool(const Parameter&)> leaves_out = {};
  // Takes gradients of weights that are better computed later; null: none. Such a gradient counts
  // as written. Passes within this one use it, too.
  LateProducts* late = nullptr;
  bool keeps_graph = false;  // for another pass; otherwise the pass frees the graph
};

// Variable::backward() with parameters left out and the graph kept for other passes (PyTorch's
// backward(inputs=..., retain_graph=True)). So two losses that share a part of their graph each
// update their own parameters. Only one of these passes may contain functions between ranks
// (parallel/functions). After an exception a kept graph can be used again; its leaves hold some
// gradients of the failed pass.
void run_backward(const Variable& result, const BackwardPass& pass);

// The same from several results of any shape, with the gradient of each (undefined: it has none)
// in place of BackwardPass::seed. Results that no function computed get theirs if they are leaves.
// Within a backward pass, `between` and `late` are by default that pass's.
void run_backward(std::span<const Variable> results, std::span<const Tensor> gradients,
                  const BackwardPass& pass);

}  // namespace tasuki
