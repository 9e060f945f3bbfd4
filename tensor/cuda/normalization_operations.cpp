#include "tasuki/tensor/normalization_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaNormalizationOperations final : public NormalizationOperations {};

}  // namespace

NormalizationOperations& CudaBackend::normalization() {
  static CudaNormalizationOperations operations;
  return operations;
}

}  // namespace tasuki
