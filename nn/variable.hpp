// Define-by-run automatic differentiation: a Variable is a value and, if the graph is recorded, the
// function that made it. `backward` on a result runs the functions in reverse (backward.cpp).
#pragma once

#include <functional>
#include <memory>

#include "tensor/tensor.hpp"

namespace tasuki {

class Function;
class Parameter;

namespace detail {
struct Node;
}

class Variable {
 public:
  Variable() = default;
  // An input: a leaf, whose gradient is kept if `requires_grad`.
  explicit Variable(Tensor value, bool requires_grad = false);

  const Tensor& value() const;
  // The value in this type if there is an up-to-date copy (Parameter::keep_rounded), else value().
  // Used for weights in operations on activations of that type.
  Tensor value_as(DType type) const;
  const Shape& shape() const;
  bool defined() const;
  // Whether a backward pass through this value reaches a leaf that requires a gradient.
  bool requires_grad() const;
  // The gradient of a leaf. Undefined before the first backward pass, after clear_grad(), and for
  // results of functions.
  const Tensor& grad() const;
  void clear_grad() const;

  // Called with a parameter as soon as its gradient of this backward pass is final: when the last
  // function that uses it has returned or has called Gradients::written(). Communication can start
  // then.
  using GradientReady = std::function<void(Parameter&)>;
  // Called after each function of the graph.
  using BetweenFunctions = std::function<void()>;

  // Computes the gradients of this scalar with respect to all leaves that require one, and adds
  // them to the leaves' gradients. The first gradient after clear_grad() overwrites the old one.
  // `seed` is the gradient of the scalar itself: with a mean loss over n examples, seed n gives
  // sums over examples. Releases the graph, so a second call is an error.
  void backward(float seed = 1, const GradientReady& ready = {},
                const BetweenFunctions& between = {}) const;
  // backward() with a seed that is a scalar tensor on this variable's device.
  void backward(const Tensor& seed, const GradientReady& ready = {},
                const BetweenFunctions& between = {}) const;

  // The node in the graph; nullptr for values without gradients.
  const std::shared_ptr<detail::Node>& node() const { return node_; }

 protected:
  friend class Function;
  Variable(Tensor value, std::shared_ptr<detail::Node> node)
      : value_(std::move(value)), node_(std::move(node)) {}

  // The graph does not hold the values of results: a value that no function saved for its backward
  // pass is freed with the last Variable that refers to it. A leaf keeps its value in the node,
  // because the value can be moved (to a device or into an arena).
  Tensor value_;
  std::shared_ptr<detail::Node> node_;
};

// Whether functions of this thread record a graph; initially true.
bool is_recording();

// While it exists, functions of its thread record nothing (function.cpp).
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

// Whether layers with two behaviours (dropout, batch normalisation) run as in training; per thread,
// initially true.
class TrainingMode {
 public:
  explicit TrainingMode(bool training);
  ~TrainingMode();
  TrainingMode(const TrainingMode&) = delete;
  TrainingMode& operator=(const TrainingMode&) = delete;
  static bool is_training();

 private:
  bool previous_;
};

}  // namespace tasuki
