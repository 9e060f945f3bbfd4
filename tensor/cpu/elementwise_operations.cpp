#include "tasuki/tensor/elementwise_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuElementwiseOperations final : public ElementwiseOperations {};

}  // namespace

ElementwiseOperations& CpuBackend::elementwise() {
  static CpuElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
