// Values of a tensor where MPI and the reductions can work on them.
#pragma once

#include <span>

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// The tensor itself when it is plain and in host memory; else a copy that is, and write_back()
// carries its values over to the tensor.
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
