#include "tasuki/tensor/sequence_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/embedding.hpp"

namespace tasuki {
namespace {

class CpuSequenceOperations final : public SequenceOperations {
 public:
  Tensor embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore) override {
    return cpu_embed(w, ids, ignore);
  }
  void embed_backward(const Tensor& ids, const Tensor& dy, std::optional<std::int64_t> ignore,
                      const Tensor& dw, bool accumulate) override {
    cpu_embed_backward(ids, dy, ignore, dw, accumulate);
  }
};

}  // namespace

SequenceOperations& CpuBackend::sequences() {
  static CpuSequenceOperations operations;
  return operations;
}

}  // namespace tasuki
