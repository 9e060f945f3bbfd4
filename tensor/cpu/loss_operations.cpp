#include "tasuki/tensor/loss_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuLossOperations final : public LossOperations {};

}  // namespace

LossOperations& CpuBackend::losses() {
  static CpuLossOperations operations;
  return operations;
}

}  // namespace tasuki
