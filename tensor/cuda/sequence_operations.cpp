#include "tensor/sequence_operations.hpp"

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/embedding_kernels.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/recurrent.hpp"
#include "tensor/embed_check.hpp"

namespace tasuki {
namespace {

kernels::Ids ids_of(const Tensor& ids, std::optional<std::int64_t> ignore) {
  return {ids.raw(), ids.dtype(), ids.count(), ignore.value_or(0), ignore.has_value()};
}

class CudaSequenceOperations final : public SequenceOperations {
 public:
  Tensor embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore) override {
    check_activation(w, "embed_id");
    Tensor y = Tensor::empty(check_embed(w, ids), w.dtype(), w.device());
    if (y.count() == 0) return y;
    kernels::embed(CudaContext::of(w.device()).launch(), w.dtype(), w.raw(), ids_of(ids, ignore),
                   y.raw(), w.shape()[0], w.shape()[1]);
    check_launch("embed_id");
    return y;
  }

  void embed_backward(const Tensor& ids, const Tensor& dy, std::optional<std::int64_t> ignore,
                      const Tensor& dw, bool accumulate) override {
    check_activation(dy, "embed_id");
    check_parameter(dw, dy.device(), "embed_id");
    check_embed_backward(ids, dy, dw);
    if (!accumulate) dw.fill(0);
    if (dy.count() == 0) return;
    const Tensor upstream = dy.plain();
    const auto scratch = kernels::embedding_scratch(ids.count(), dw.shape()[1]);
    const Tensor numbers = Tensor::empty({scratch.numbers}, DType::int64, dy.device());
    const Tensor sums = Tensor::empty({scratch.sums}, DType::float32, dy.device());
    kernels::embed_backward(CudaContext::of(dy.device()).launch(), dy.dtype(), ids_of(ids, ignore),
                            upstream.raw(), dw.data<float>(), dw.shape()[0], dw.shape()[1],
                            numbers.data<std::int64_t>(), sums.data<float>());
    check_launch("gradient of embed_id");
  }

  Outputs recurrent(const RecurrentLayer& layer, const Tensor& x, const Tensor& lengths,
                    const Tensor& states, std::shared_ptr<Workspace>* workspace) override {
    return cuda_recurrent(layer, x, lengths, states, workspace);
  }
  InputGradients recurrent_backward(const RecurrentLayer& layer, const Outputs& upstream,
                                    const Workspace& workspace,
                                    const RecurrentGradients& gradients) override {
    return cuda_recurrent_backward(layer, upstream, workspace, gradients);
  }
};

}  // namespace

SequenceOperations& CudaBackend::sequences() {
  static CudaSequenceOperations operations;
  return operations;
}

}  // namespace tasuki
