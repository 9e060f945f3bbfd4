// HostValues: the values of a tensor in plain host memory, for MPI and reductions on CPUs.
#pragma once

#include <span>

#include "tensor/tensor.hpp"

namespace tasuki {

// Refers to the tensor's own memory if that is plain and on the host; otherwise to a copy, which
// write_back() copies to the tensor.
class HostValues {
 public:
  explicit HostValues(const Tensor& origin)
      : origin_(origin), values_(origin.to(Device::cpu()).plain()) {}

  const Tensor& tensor() const { return values_; }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(values_.raw()), values_.bytes()};
  }
  void write_back() const {
    if (values_.storage() != origin_.storage()) origin_.copy_from(values_);
  }

 private:
  Tensor origin_, values_;
};

}  // namespace tasuki
