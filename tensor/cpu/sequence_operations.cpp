#include "tasuki/tensor/sequence_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuSequenceOperations final : public SequenceOperations {};

}  // namespace

SequenceOperations& CpuBackend::sequences() {
  static CpuSequenceOperations operations;
  return operations;
}

}  // namespace tasuki
