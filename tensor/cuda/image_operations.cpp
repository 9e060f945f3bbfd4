#include "tasuki/tensor/image_operations.hpp"

#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

class CudaImageOperations final : public ImageOperations {};

}  // namespace

ImageOperations& CudaBackend::images() {
  static CudaImageOperations operations;
  return operations;
}

}  // namespace tasuki
