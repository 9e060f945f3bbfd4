#include "tasuki/tensor/loss_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaLossOperations final : public LossOperations {};

}  // namespace

LossOperations& CudaBackend::losses() {
  static CudaLossOperations operations;
  return operations;
}

}  // namespace tasuki
