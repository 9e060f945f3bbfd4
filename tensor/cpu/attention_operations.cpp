#include "tasuki/tensor/attention_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

class CpuAttentionOperations final : public AttentionOperations {};

}  // namespace

AttentionOperations& CpuBackend::attention() {
  static CpuAttentionOperations operations;
  return operations;
}

}  // namespace tasuki
