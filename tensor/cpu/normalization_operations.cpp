#include "tasuki/tensor/normalization_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuNormalizationOperations final : public NormalizationOperations {};

}  // namespace

NormalizationOperations& CpuBackend::normalization() {
  static CpuNormalizationOperations operations;
  return operations;
}

}  // namespace tasuki
