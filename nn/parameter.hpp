// A learnable tensor with a name and a gradient.
#pragma once

#include <string>

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// A leaf Variable. Value and gradient are plain float32 tensors of the same shape; an optimizer
// moves both into its arenas (`move_to`), which keeps the values.
class Parameter : public Variable {
 public:
  Parameter(std::string name, Tensor value);
  ~Parameter();
  // Graphs and optimizers know a parameter by its address.
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  // The memory of the gradient, written or not.
  const Tensor& grad_storage() const;
  // Whether the gradient was written since the last clear_grad().
  bool has_grad() const;
  // Marks the gradient as empty without touching memory: the next backward pass overwrites it.
  void clear_grad();
  // Writes zeros when has_grad() is false, so that an unused parameter counts as zero.
  void fill_missing_grad();
  // Lets value and gradient live in this memory from now on; values are copied there.
  void move_to(const Tensor& value, const Tensor& grad);

 private:
  std::string name_;
};

}  // namespace tasuki
