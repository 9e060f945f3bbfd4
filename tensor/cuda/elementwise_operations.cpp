#include "tasuki/tensor/elementwise_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaElementwiseOperations final : public ElementwiseOperations {};

}  // namespace

ElementwiseOperations& CudaBackend::elementwise() {
  static CudaElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
