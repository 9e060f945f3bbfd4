#include "tasuki/tensor/image_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuImageOperations final : public ImageOperations {};

}  // namespace

ImageOperations& CpuBackend::images() {
  static CpuImageOperations operations;
  return operations;
}

}  // namespace tasuki
