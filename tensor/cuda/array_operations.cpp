#include "tasuki/tensor/array_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaArrayOperations final : public ArrayOperations {};

}  // namespace

ArrayOperations& CudaBackend::arrays() {
  static CudaArrayOperations operations;
  return operations;
}

}  // namespace tasuki
