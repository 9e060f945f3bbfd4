#include "tasuki/tensor/attention_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaAttentionOperations final : public AttentionOperations {};

}  // namespace

AttentionOperations& CudaBackend::attention() {
  static CudaAttentionOperations operations;
  return operations;
}

}  // namespace tasuki
