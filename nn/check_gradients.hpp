// Compares the gradients that a backward pass computes with differences of the forward pass, for
// tests of your own functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nn/variable.hpp"

namespace tasuki {

struct GradientCheck {
  // A gradient g may differ from the difference d by absolute + relative * |d|. Results are
  // float32, so much smaller bounds would measure their rounding.
  double absolute = 1e-3, relative = 1e-2;
  // Elements move by this much in both directions, and by half of it. Where a function has a kink
  // (ReLU at 0), keep the inputs further away from it.
  double step = 2e-2;
  // Of the factors in [0.5, 1.5) by which the elements of a result are weighted before they are
  // added up, so that each element counts in its own way.
  std::uint64_t seed = 0;
};

// Calls `function` with `inputs`, and compares the gradients of those that require one, parameters
// among them, with central differences, element by element. The differences of two steps are
// combined so that their error is of the fourth power of the step (Richardson). `function` returns
// a floating-point result of any shape, and must return the same values for the same inputs. It may
// be called four times for each element. Inputs are plain float32 arrays on any device, without
// copies in 16 bits (Optimizer::compute_in()); they have
// their values again when this returns or throws, and their gradients are lost.
//
// An error of kind data names the input and the element with the largest error, both values, and
// how many elements differ:
//   check_gradients([](const std::vector<Variable>& in) { return swish(in[0], in[1]); }, {x, b});
void check_gradients(const std::function<Variable(const std::vector<Variable>& inputs)>& function,
                     const std::vector<Variable>& inputs, const GradientCheck& check = {});

// (f(v + h d) - f(v - h d)) / 2h: the derivative of f along a direction d, which has an array for
// each of the arrays v that f reads. All are plain float32; v has its values again afterwards.
double central_difference(const std::function<double()>& f, const std::vector<Tensor>& values,
                          const std::vector<Tensor>& direction, double step);

}  // namespace tasuki
