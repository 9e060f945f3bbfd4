#include "tasuki/tensor/sequence_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaSequenceOperations final : public SequenceOperations {};

}  // namespace

SequenceOperations& CudaBackend::sequences() {
  static CudaSequenceOperations operations;
  return operations;
}

}  // namespace tasuki
