// Checks that operations share. They use only the host's description of tensors.
#pragma once

#include "tensor/tensor.hpp"

namespace tasuki {

// An activation of one of the types in which operations compute.
inline void check_activation(const Tensor& x, const char* what) {
  TASUKI_CHECK(!x.device().is_cpu() && is_activation_type(x.dtype()),
               "{}: expected a float32, float16 or bfloat16 tensor on a GPU, found {} on {}", what,
               name_of(x.dtype()), x.device().text());
}

// Parameters, their gradients and statistics: plain float32 on the same GPU.
inline void check_parameter(const Tensor& w, Device device, const char* what) {
  TASUKI_CHECK(w.device() == device && w.dtype() == DType::float32 && w.is_plain(),
               "{}: expected plain float32 parameters on {}, found {} on {}", what, device.text(),
               name_of(w.dtype()), w.device().text());
}

// Weights and biases of an operation on activations of `type`: as parameters, or already rounded to
// it.
inline void check_weights(const Tensor& w, Device device, DType type, const char* what) {
  if (w.dtype() == DType::float32) return check_parameter(w, device, what);
  TASUKI_CHECK(w.device() == device && w.dtype() == type && w.is_plain(),
               "{}: expected plain weights of float32 or {} on {}, found {} on {}", what,
               name_of(type), device.text(), name_of(w.dtype()), w.device().text());
}

// Two activations that are combined element by element.
inline void check_alike(const Tensor& a, const Tensor& b, const char* what) {
  check_activation(a, what);
  TASUKI_CHECK(a.shape() == b.shape() && a.dtype() == b.dtype() && a.device() == b.device(),
               "{}: {} of {} on {} and {} of {} on {} differ", what, a.shape().text(),
               name_of(a.dtype()), a.device().text(), b.shape().text(), name_of(b.dtype()),
               b.device().text());
}

}  // namespace tasuki
