// GradientMemory: gives the gradients of parameters their memory only while they need it.
#pragma once

#include <span>

namespace tasuki {

class Parameter;

// A parameter knows one by Parameter::place_grad_by(). Without one, its gradient has memory of its
// own all the time.
class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  // Called in a backward pass before a function writes the first gradient of its parameters. Gives
  // the gradients of all of these, the function's own, their memory (Parameter::move_grad), unless
  // they have it. It stays in place until the function has returned.
  virtual void provide(std::span<Parameter* const> parameters) = 0;
};

}  // namespace tasuki
