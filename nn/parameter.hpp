// A learnable tensor with a name and a gradient.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "nn/variable.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

class GradientMemory;
class ValueMemory;

// A parameter's value in a half type, kept by an optimizer.
struct RoundedValue {
  explicit RoundedValue(Tensor rounded) : values(std::move(rounded)) {}
  Tensor values;
  Revision place;
};

// A leaf Variable. Value and gradient are plain float32 tensors of the same shape; an optimizer
// moves both into its arenas (`move_to`), which keeps the values.
//
// The first input may determine the shape: until set_shape() the parameter has no elements, and
// models and optimizers leave it out.
class Parameter : public Variable {
 public:
  Parameter(std::string name, Tensor value);
  // Zeros, which take memory when they are written.
  struct Untouched {};
  Parameter(std::string name, const Shape& shape, Untouched untouched);
  // Without a shape yet: axes of `open_shape` that are 0 are unknown.
  Parameter(std::string name, const Shape& open_shape);
  ~Parameter();
  // Graphs and optimizers identify a parameter by its address.
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  // The class of the module that made it, "Linear"; empty without one.
  std::string layer() const;
  void set_layer(const std::type_info& type) { layer_ = &type; }
  bool has_shape() const { return has_shape_; }
  // "100x784"; "100x?" without a shape yet.
  std::string shape_text() const;
  // Whether set_shape() can give it this shape: known axes are the same, and no axis is 0.
  bool accepts(const Shape& shape) const;
  // Gives a parameter its shape and its first values, from initialize_later() or zeros, on the
  // parameter's device.
  void set_shape(const Shape& shape);
  // Fills the value as soon as there is a shape and the value is read. Until then a large value
  // takes no memory.
  void initialize_later(std::function<void(const Tensor& value)> fill);
  // Whether it was given values: drawn, read from a file, or written to value() (zeros are not
  // recognised: call value_changed()). Reads the values if there is no other evidence.
  bool has_values() const;
  // The memory of the value, which may lack the values now (keep_values_by).
  const Tensor& value_storage() const;
  // All values: value(), or a copy where ranks keep parts of them, which is then collective.
  Tensor read_value() const;
  // Sets the values, of the parameter's shape; where ranks keep parts, all pass the same.
  void write_value(const Tensor& values);
  // The memory of the gradient, written or not; undefined while it is frozen. In a step of shards
  // grad() writes a gradient that is kept as a product (late_products.hpp); this does not.
  const Tensor& grad_storage() const;
  // Whether the gradient was written since the last clear_grad().
  bool has_grad() const;
  // Marks the gradient as empty without touching memory: the next backward pass overwrites it.
  void clear_grad();
  // Writes zeros when has_grad() is false, so that an unused parameter counts as zero.
  void fill_missing_grad();
  // Moves value and gradient to this memory; values are copied.
  void move_to(const Tensor& value, const Tensor& grad);
  // move_to() without a copy of values, which the memory has, or will have when it provides them;
  // an undefined `grad` freezes the parameter (freeze_at()).
  void place_at(const Tensor& value, const Tensor& grad);
  // Until the next move_to(), freeze_at() or place_at(), `memory` gives the value its contents.
  void keep_values_by(std::shared_ptr<ValueMemory> memory);
  // Null: the values are in memory all the time.
  ValueMemory* value_memory() const;
  // Makes this memory the gradient's. Copies nothing; has_grad() does not change.
  void move_grad(const Tensor& grad);
  // Until the next move_to(), and while `memory` exists, it gives the gradient its memory before a
  // first gradient is written.
  void place_grad_by(const std::weak_ptr<GradientMemory>& memory);
  // Like move_to(), without a gradient: until the next move_to(), functions treat the value as an
  // input without gradients.
  void freeze_at(const Tensor& value);
  bool is_frozen() const;
  // Whether an optimizer owns this parameter; optimizers set it.
  bool has_optimizer() const { return has_optimizer_; }
  void set_has_optimizer() { has_optimizer_ = true; }
  // Until the next move_to(), and while its owner keeps it, `rounded` is the value in another type:
  // code that changes the value also changes `rounded`, or calls value_changed().
  void keep_rounded(const std::weak_ptr<const RoundedValue>& rounded);
  void value_changed() const;

 private:
  friend class Variable;
  void move_value(const Tensor& value);

  Revision place_;  // of value, gradient and rounded values
  std::string name_;
  const std::type_info* layer_ = nullptr;
  bool has_shape_ = true, has_optimizer_ = false;
  std::function<void(const Tensor& value)> fill_;
};

// The parameters from which `result` was computed, each once; `result` must still have its graph.
std::vector<Parameter*> parameters_below(const Variable& result);

}  // namespace tasuki
