// FiniteGuard: finds out whether a step may change a model, and keeps what it must not change if
// not.
#pragma once

#include <vector>

#include "nn/module.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// A step is left out if a loss of any rank or a sum of gradients is not finite. The flag that says
// so is on the device, as LossScaler's, so that the update there reads it and recorded steps
// contain the search.
class FiniteGuard {
 public:
  explicit FiniteGuard(Device device) : found_(Tensor::zeros({1}, DType::float32, device)) {}

  // Both guards then have one flag, so that a step is left out where either has found something.
  void share_flag(const FiniteGuard& other);

  // Device work, in this order in each step. Before its first forward pass: forgets what was found,
  // and copies the model's running statistics. All guards with one flag do so before one searches.
  void begin(const Module& model);
  // Before the exchange: `notice` becomes 0 times the sum of the losses, which is 0 if they are
  // finite and otherwise no number, so that its sum over ranks tells all of them. `adds`: to
  // earlier losses of this step. What is no loss counts as 0: nothing (a rank without examples), or
  // what a rank that has a part of a model without its loss returns, of any shape and on any
  // device.
  static void note_loss(const Tensor& notice, const Tensor& loss, bool adds);
  // After the exchange: searches values, such as sums of gradients and the notice; or notes what
  // another search has found.
  void search(const Tensor& values) const;
  void note_found() const { found_.fill(1); }
  // 1 if something was found, else 0. Where ranks search different parts they agree on it.
  const Tensor& found() const { return found_; }
  const float* skip() const { return found_.data<float>(); }

  // Waits for the device.
  bool has_found() const { return found_.item() != 0; }
  // Puts the running statistics back.
  void restore(const Module& model) const;

 private:
  Tensor found_;
  std::vector<Tensor> kept_;
};

}  // namespace tasuki
