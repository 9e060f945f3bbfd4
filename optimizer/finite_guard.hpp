// FiniteGuard: detects steps whose losses or gradients are not finite, and restores what such a
// step must not change.
#pragma once

#include <vector>

#include "nn/module.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// A step is left out if a loss of any rank or a sum of gradients is not finite. The flag for that
// is on the device, like LossScaler's, so that the update reads it there and recorded steps contain
// the search.
class FiniteGuard {
 public:
  explicit FiniteGuard(Device device) : found_(Tensor::zeros({1}, DType::float32, device)) {}

  // Makes both guards use one flag, so that a step is left out if either has found something.
  void share_flag(const FiniteGuard& other);

  // Device work, in this order in each step.
  //
  // Before the first forward pass: clears the flag and copies the model's running statistics. All
  // guards with one flag must do so before one of them searches.
  void begin(const Module& model);
  // Before the exchange: sets `notice` to 0 times the sum of the losses. That is 0 if they are
  // finite and NaN otherwise, so its sum tells all ranks. `is_further_batch`: adds to the step's
  // earlier losses. Two things count as a loss of 0: an undefined tensor (a rank without examples),
  // and any value, on any device, from a rank whose part of the model does not have the loss.
  static void note_loss(const Tensor& notice, const Tensor& loss, bool is_further_batch);
  // After the exchange: searches values, such as sums of gradients and the notice, or records that
  // another search has found something.
  void search(const Tensor& values) const;
  void note_found() const { found_.fill(1); }
  // 1 if something was found, else 0. Ranks that search different parts agree on it.
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
