// Interface of differentiable functions; functions/matmul.cpp is an example.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "nn/variable.hpp"

namespace tasuki {

class CallSettings;

// Receives the gradients of a function's inputs in its backward pass.
class Gradients {
 public:
  virtual ~Gradients() = default;
  // Whether the gradient of input i is needed.
  virtual bool needed(std::size_t i) const = 0;
  // Passes a gradient of the input's shape.
  virtual void add(std::size_t i, Tensor gradient) = 0;
  // The sum of the gradients that were passed for input i before, for a function that adds it to
  // its own gradient in the same pass over memory, and passes the result with replace() (Chainer's
  // backward_accumulate). Undefined if there is none, if the gradient is not needed, and for
  // parameters. It has the input's type, but maybe another layout, and may share its memory with
  // other gradients: it must not be written to.
  virtual Tensor sum(std::size_t i) const = 0;
  // Passes a gradient that contains sum(i), and gives it up: later gradients are added to its
  // memory, which nothing else may use. Nothing else may be passed for the input in between.
  virtual void replace(std::size_t i, Tensor gradient) = 0;
  // For parameters: memory to write to directly (in the arena), so that no copy is made.
  // `accumulate`: add to its contents.
  struct Destination {
    Tensor tensor;
    bool accumulate = false;
  };
  // Inputs that are not parameters get a new tensor of this shape, with accumulate = false.
  virtual Destination into(std::size_t i, const Shape& shape) = 0;
  // Offers the gradient of input i as the product dy^T x (late_products.hpp). True: it is computed
  // elsewhere, perhaps later; false: the function computes it, with into().
  virtual bool take_product(std::size_t /*i*/, const Tensor& /*dy*/, const Tensor& /*x*/) {
    return false;
  }
  // Says that the gradient of input i is final. Without this call it is final when backward()
  // returns; a function with weights calls it before it computes its input's gradient, so that the
  // exchange of the weight gradients can start (Variable::GradientReady).
  virtual void written(std::size_t /*i*/) {}
};

// One recorded call. Derived classes hold what their backward pass needs: tensors, never their own
// result's Variable, which would be a cycle.
class Function {
 public:
  Function() = default;
  virtual ~Function() = default;
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  virtual const char* name() const = 0;
  // Runs once, when the gradient of the result is complete.
  virtual void backward(const Tensor& grad_output, Gradients& grad_inputs) = 0;
  // For summaries of a model (model_summary.hpp): the multiplications with an addition of the
  // forward pass from `inputs` to `result`; 0: none that count, as of functions of single elements.
  virtual double multiply_adds(const std::vector<Variable>& /*inputs*/,
                               const Tensor& /*result*/) const {
    return 0;
  }
  // Called after an exception ended a backward pass: drops what backward() left for other
  // functions.
  virtual void drop_gradients() noexcept {}
  // Whether it reads parameters among its inputs itself, forward or backward; otherwise functions
  // within it do.
  virtual bool reads_parameters() const { return true; }
  // The settings of this call, for a CallRecorder. A function without them has none but its inputs.
  virtual void describe(CallSettings& /*settings*/) const {}

  // The nodes of the inputs in the graph; nullptr for those without gradients.
  const std::vector<std::shared_ptr<detail::Node>>& inputs() const { return inputs_; }

  // Wraps a forward result: if recording is on and an input requires a gradient, the result
  // remembers the function that `make` builds; otherwise nothing is kept.
  template <class Make>
  static Variable record(Tensor result, const std::vector<Variable>& inputs, Make&& make) {
    const bool is_recorded = wanted(inputs);
    result = lasting(std::move(result), inputs);
    if (!is_recorded && !is_watched()) {
      check_values(inputs);
      return Variable(std::move(result));
    }
    return attach(std::move(result), inputs, std::forward<Make>(make)(), is_recorded);
  }

 private:
  friend struct detail::Node;
  static bool wanted(const std::vector<Variable>& inputs);
  // A copy of a result that lies in the memory of a parameter whose values do not stay there
  // (ValueMemory), such as one of reshape(); otherwise the result.
  static Tensor lasting(Tensor result, const std::vector<Variable>& inputs);
  // Fails if the values of a parameter among the inputs went while the function used them.
  static void check_values(const std::vector<Variable>& inputs);
  static bool is_watched();
  static Variable attach(Tensor result, const std::vector<Variable>& inputs,
                         std::unique_ptr<Function> function, bool is_recorded);

  std::vector<std::shared_ptr<detail::Node>> inputs_;
};

// Watches the functions of forward passes, like Chainer's FunctionHook: while it exists, called()
// is called after each function of its thread, whether the function is recorded or not. Hooks end
// in the reverse order of their beginning.
class FunctionHook {
 public:
  FunctionHook();
  virtual ~FunctionHook();
  FunctionHook(const FunctionHook&) = delete;
  FunctionHook& operator=(const FunctionHook&) = delete;

  // `function` lives only as long as the call if nothing is recorded.
  virtual void called(const Function& function, const std::vector<Variable>& inputs,
                      const Variable& result) = 0;

 private:
  friend class Function;
  FunctionHook* outer_;
};

}  // namespace tasuki
