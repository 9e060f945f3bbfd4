#include "tensor/attention_operations.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "tensor/cuda/attention_kernels.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/cudnn_attention.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda_settings.hpp"

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

bool has_packs(const kernels::HeadArray& array, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(array.values) % 16 == 0 && array.width * bytes % 16 == 0;
}

// Whether rows of heads begin at multiples of 16 bytes in all of these.
bool have_packs(const kernels::AttentionArrays& arrays,
                std::initializer_list<kernels::HeadArray> others) {
  const auto bytes = static_cast<std::int64_t>(size_of(arrays.type));
  if (arrays.head_width * bytes % 16 != 0) return false;
  for (const auto& array : {arrays.q, arrays.k, arrays.v, arrays.y})
    if (!has_packs(array, bytes)) return false;
  return std::all_of(others.begin(), others.end(),
                     [&](const auto& array) { return has_packs(array, bytes); });
}

bool is_for_tensor_cores(const kernels::AttentionArrays& arrays, const CudaContext& context) {
  return arrays.type != DType::float32 && arrays.head_width <= kernels::most_tensor_core_width &&
         kernels::has_tensor_core_code(context.compute_capability());
}

// The largest score of each query, and its sum; where cuDNN has kept their logarithm, from that.
Tensor pairs_of(const Tensor& statistics) {
  if (statistics.shape().rank() == 4) return statistics;
  const Shape& shape = statistics.shape();
  Tensor pairs =
      Tensor::empty({shape[0], shape[1], shape[2], 2}, DType::float32, statistics.device());
  kernels::split_statistics(launch_on(statistics), statistics.data<float>(),
                            static_cast<float2*>(pairs.raw()), shape.count());
  check_launch("statistics of attention");
  return pairs;
}

class CudaAttentionOperations final : public AttentionOperations {
 public:
  AttentionResult attention(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                            const AttentionOptions& options) override {
    kernels::AttentionArrays arrays = arrays_of(q, k, v, options);
    const Device device = q.array.device();
    const std::int64_t width = options.heads * options.head_width;
    CudaContext& context = CudaContext::of(device);
    AttentionResult result{Tensor::empty({q.items(), q.rows(), width}, arrays.type, device), {}};
    arrays.y = array_of({result.y});
    arrays.has_packs = have_packs(arrays, {});
    if (result.y.count() > 0) result.statistics = cudnn_attention(context, arrays);
    if (result.statistics) return result;
    result.statistics =
        Tensor::empty({q.items(), options.heads, q.rows(), 2}, DType::float32, device);
    if (result.y.count() == 0) return result;
    arrays.statistics = static_cast<float2*>(result.statistics.raw());
    const auto run =
        is_for_tensor_cores(arrays, context) ? kernels::tensor_core_attention : kernels::attention;
    run(context.launch(), arrays);
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
    const Device device = q.array.device();
    CudaContext& context = CudaContext::of(device);
    const Tensor products =
        Tensor::empty({q.items(), options.heads, q.rows()}, DType::float32, device);
    const kernels::AttentionGradients to = {array_of(dq), array_of(dk), array_of(dv),
                                            products.data<float>()};
    arrays.has_packs = have_packs(arrays, {arrays.dy, to.dq, to.dk, to.dv});
    if (forward.statistics.shape().rank() == 3 && !cuda_settings().deterministic &&
        cudnn_attention_gradient(context, arrays, forward.statistics, to))
      return;
    const Tensor pairs = pairs_of(forward.statistics);
    arrays.statistics = static_cast<float2*>(pairs.raw());
    const auto run = is_for_tensor_cores(arrays, context) ? kernels::tensor_core_attention_gradient
                                                          : kernels::attention_gradient;
    run(context.launch(), arrays, to);
    check_launch("gradient of attention");
  }
};

}  // namespace

AttentionOperations& CudaBackend::attention() {
  static CudaAttentionOperations operations;
  return operations;
}

}  // namespace tasuki
