// A vertex of the autograd graph: a leaf that keeps its gradient, or a function's result.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/function.hpp"
#include "nn/late_products.hpp"

namespace tasuki {

class GradientMemory;
class ValueMemory;
struct RoundedValue;

namespace detail {

struct Node {
  Node() = default;
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  bool is_leaf() const { return sequence == 0; }
  // Adds to `grad`, which is shared with the caller until a second gradient arrives. Gradients have
  // the type of the value.
  void add_gradient(Tensor gradient);

  DType type = DType::float32;  // of the value
  Tensor grad;
  bool grad_is_own = false;  // its memory is not shared and may be added to in place

  // Leaves.
  Tensor value;
  std::weak_ptr<const RoundedValue> rounded;  // the value in another type
  Parameter* parameter = nullptr;
  bool has_grad = false;    // of parameters: `grad` is their memory, this says whether it counts
  bool has_values = false;  // of parameters: values were given to them
  bool is_frozen = false;   // of parameters: functions treat it as an input without gradients
  std::weak_ptr<GradientMemory> grad_memory;  // of parameters: where it gives `grad` its memory
  std::shared_ptr<ValueMemory> value_memory;  // of parameters: gives `value` its contents
  // Of parameters with has_grad: keeps the gradient in place of `grad`.
  LateProducts* late = nullptr;
  // Of parameters: before their values are used.
  void provide_value();
  // Of parameters: fails if their values are not there.
  void check_value() const;
  void write_late_grad();
  void clear_grad();  // of parameters

  // Results: the function that made it, until a backward pass has used it, and its number in the
  // order of creation, which sorts the graph.
  std::unique_ptr<Function> function;
  std::uint64_t sequence = 0;
};

}  // namespace detail
}  // namespace tasuki
