#include "tensor/sequence_operations.hpp"

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/sequences.hpp"

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
  Outputs recurrent(const RecurrentLayer& layer, const Tensor& x, const Tensor& lengths,
                    const Tensor& states, std::shared_ptr<Workspace>* workspace) override {
    return cpu_recurrent(layer, x, lengths, states, workspace);
  }
  std::shared_ptr<Workspace> prepare_recurrent(const RecurrentLayer& layer,
                                               std::int64_t items) override {
    return cpu_prepare_recurrent(layer, items);
  }
  InputGradients recurrent_backward(const RecurrentLayer& layer, const Outputs& upstream,
                                    const Workspace& workspace,
                                    const RecurrentGradients& gradients) override {
    return cpu_recurrent_backward(layer, upstream, workspace, gradients);
  }
};

}  // namespace

SequenceOperations& CpuBackend::sequences() {
  static CpuSequenceOperations operations;
  return operations;
}

}  // namespace tasuki
