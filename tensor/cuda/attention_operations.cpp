#include "tensor/attention_operations.hpp"

#include "tensor/cuda/attention_kernels.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

kernels::HeadArray array_of(const HeadColumns& columns) {
  return {static_cast<std::byte*>(columns.array.raw()) +
              static_cast<std::size_t>(columns.begin) * size_of(columns.array.dtype()),
          columns.rows(), columns.width()};
}

kernels::AttentionArrays arrays_of(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                                   const AttentionOptions& options) {
  check_activation(q.array, "attention");
  check_attention(q, k, v, options);
  // Heads of all items are one axis of the grid.
  constexpr std::int64_t most_heads = 65535;
  if (options.head_width > kernels::most_head_width || q.items() * options.heads > most_heads)
    fail(ErrorKind::usage,
         "attention on GPUs: at most {} columns per head and {} heads of all items, found {} and "
         "{}; use more heads or a smaller batch",
         kernels::most_head_width, most_heads, options.head_width, q.items() * options.heads);
  return {.type = q.array.dtype(),
          .q = array_of(q),
          .k = array_of(k),
          .v = array_of(v),
          .items = q.items(),
          .heads = options.heads,
          .head_width = options.head_width,
          .lengths = options.lengths ? options.lengths.data<std::int64_t>() : nullptr,
          .scale = options.scale,
          .causal = options.causal};
}

class CudaAttentionOperations final : public AttentionOperations {
 public:
  AttentionResult attention(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                            const AttentionOptions& options) override {
    kernels::AttentionArrays arrays = arrays_of(q, k, v, options);
    const Device device = q.array.device();
    const std::int64_t width = options.heads * options.head_width;
    AttentionResult result{
        Tensor::empty({q.items(), q.rows(), width}, arrays.type, device),
        Tensor::empty({q.items(), options.heads, q.rows(), 2}, DType::float32, device)};
    if (result.y.count() == 0) return result;
    arrays.y = array_of({result.y});
    arrays.statistics = static_cast<float2*>(result.statistics.raw());
    kernels::attention(CudaContext::of(device).launch(), arrays);
    check_launch("attention");
    return result;
  }

  void attention_gradient(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                          const AttentionResult& forward, const Tensor& upstream,
                          const AttentionOptions& options, const HeadColumns& dq,
                          const HeadColumns& dk, const HeadColumns& dv) override {
    kernels::AttentionArrays arrays = arrays_of(q, k, v, options);
    check_attention(dq, dk, dv, options);
    check_alike(forward.y, upstream, "gradient of attention");
    if (q.items() == 0) return;
    const Tensor dy = upstream.plain();
    arrays.y = array_of({forward.y});
    arrays.dy = array_of({dy});
    arrays.statistics = static_cast<float2*>(forward.statistics.raw());
    const Device device = q.array.device();
    kernels::attention_gradient(CudaContext::of(device).launch(), arrays, array_of(dq),
                                array_of(dk), array_of(dv));
    check_launch("gradient of attention");
  }
};

}  // namespace

AttentionOperations& CudaBackend::attention() {
  static CudaAttentionOperations operations;
  return operations;
}

}  // namespace tasuki
