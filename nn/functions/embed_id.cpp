#include "nn/functions/connection.hpp"

#include "nn/function.hpp"
#include "tensor/backend.hpp"
#include "tensor/sequence_operations.hpp"

namespace tasuki::functions {
namespace {

class EmbedId final : public Function {
 public:
  EmbedId(Tensor ids, Shape w, std::optional<std::int64_t> ignore)
      : ids_(std::move(ids)), w_(w), ignore_(ignore) {}
  const char* name() const override { return "embed_id"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const auto [dw, accumulate] = gradients.into(0, w_);
    backend(dy.device()).sequences().embed_backward(ids_, dy, ignore_, dw, accumulate);
  }

 private:
  Tensor ids_;
  Shape w_;
  std::optional<std::int64_t> ignore_;
};

// Ids do not say which type activations have.
Tensor weights_of(const Variable& w) {
  for (const DType type : {DType::bfloat16, DType::float16})
    if (Tensor rounded = w.value_as(type); rounded.dtype() == type) return rounded;
  return w.value();
}

}  // namespace

Variable embed_id(const Tensor& ids, const Variable& w, std::optional<std::int64_t> ignore_label) {
  const Tensor plain = ids.plain();
  Tensor y = backend(w.value().device()).sequences().embed(weights_of(w), plain, ignore_label);
  return Function::record(
      std::move(y), {w}, [&] { return std::make_unique<EmbedId>(plain, w.shape(), ignore_label); });
}

}  // namespace tasuki::functions
