#include "tasuki/tensor/array_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuArrayOperations final : public ArrayOperations {};

}  // namespace

ArrayOperations& CpuBackend::arrays() {
  static CpuArrayOperations operations;
  return operations;
}

}  // namespace tasuki
