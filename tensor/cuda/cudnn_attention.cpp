#include "tensor/cuda/cudnn_attention.hpp"

#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/log.hpp"
#include "tensor/cuda/attention_graphs.hpp"
#include "tensor/cuda/cudnn_support.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

using kernels::AttentionArrays;
using kernels::HeadArray;

// Earlier versions are known to compute wrong values.
constexpr std::size_t first_version = 91002;
// Up to this one, gradients read beyond keys whose number is no multiple of 128 unless there are
// lengths.
constexpr std::size_t last_version_without_ends = 91500;
constexpr std::int64_t tile = 128;  // queries or keys, the most of a kernel's
// Of a thread and direction.
constexpr std::size_t most_shapes = 100;

template <class Graph>
struct Compiled {
  explicit Compiled(const AttentionShape& shape) : graph(shape) {}

  Graph graph;
  std::unique_ptr<CudnnPlan> plan;
};

// What was made for each shape, device and limit of the workspace, by the calling thread, because a
// plan belongs to the thread's handle; nullptr: not supported, or one shape too many.
template <class Graph>
const Compiled<Graph>* compiled(CudaContext& context, const AttentionShape& shape) {
  const cudnnHandle_t handle = cudnn_handle(context);
  using Key = std::tuple<int, AttentionShape, std::size_t>;
  thread_local std::map<Key, std::unique_ptr<Compiled<Graph>>> all;
  const std::size_t limit = cuda_settings().workspace_limit;
  const Key key = {context.device().index, shape, limit};
  const auto found = all.find(key);
  if (found != all.end()) return found->second.get();
  if (all.size() == most_shapes) return nullptr;
  auto made = std::make_unique<Compiled<Graph>>(shape);
  made->plan = make_plan(made->graph.graph, handle, limit);
  log_verbose("attention of {} x {} heads, {} queries, {} keys, {} columns: {}{}", shape.items,
              shape.heads, shape.queries, shape.keys, shape.head_width,
              made->plan ? "by cuDNN" : "not supported by cuDNN",
              all.size() + 1 == most_shapes ? "; further shapes are left to Tasuki's kernels" : "");
  if (made->plan == nullptr) made = nullptr;
  return (all[key] = std::move(made)).get();
}

bool is_switched_off() {
  const char* const choice = std::getenv("TASUKI_GPU_ATTENTION");
  return choice != nullptr && std::string_view(choice) == "own";
}

// Whether cuDNN is asked. Text generation has a single query and one more key for each symbol: its
// plans would not be used again.
bool may_ask_cudnn(const CudaContext& context, const AttentionArrays& arrays) {
  return arrays.type != DType::float32 && arrays.has_packs && arrays.q.rows > 1 &&
         arrays.k.rows > 0 && context.compute_capability() >= 80 &&
         cudnnGetVersion() >= first_version && !is_switched_off();
}

// Without lengths, gradients that are not causal may become NaN where the last tile is not whole:
// scores of the keys behind the end count as 0 there, and e^(0 - m - log(sum)) overflows if all
// scores are below -88.
bool needs_lengths(const AttentionShape& shape) {
  const bool are_whole = shape.queries % tile == 0 && shape.keys % tile == 0;
  return (!shape.causal && !are_whole) ||
         (shape.keys % tile != 0 && cudnnGetVersion() <= last_version_without_ends);
}

AttentionShape shape_of(const AttentionArrays& arrays) {
  return {.type = cudnn_type(arrays.type),
          .items = arrays.items,
          .heads = arrays.heads,
          .queries = arrays.q.rows,
          .keys = arrays.k.rows,
          .head_width = arrays.head_width,
          .causal = arrays.causal,
          .has_lengths = arrays.lengths != nullptr,
          .q_width = arrays.q.width,
          .k_width = arrays.k.width,
          .v_width = arrays.v.width};
}

using Arrays = std::vector<std::pair<CudnnGraph::Id, void*>>;

// What both graphs are given, and keeps it until it is queued.
class Inputs {
 public:
  Inputs(CudaContext& context, const AttentionArrays& arrays, const AttentionShape& shape,
         const AttentionIds& ids, const Tensor& logarithms)
      : scale_(arrays.scale) {
    this->arrays = {{ids.q, arrays.q.values},           {ids.k, arrays.k.values},
                    {ids.v, arrays.v.values},           {ids.y, arrays.y.values},
                    {ids.statistics, logarithms.raw()}, {ids.scale, &scale_}};
    if (shape.causal || shape.has_lengths) this->arrays.emplace_back(ids.lowest, &lowest_);
    if (!shape.has_lengths) return;
    // Each begins at a multiple of 16 bytes.
    const std::int64_t room = (shape.items + 3) / 4 * 4;
    lengths_ = Tensor::empty({2, room}, DType::int32, context.device());
    auto* const queries = lengths_.data<std::int32_t>();
    kernels::attention_lengths(context.launch(), arrays, queries, queries + room);
    check_launch("lengths of attention");
    this->arrays.emplace_back(ids.query_lengths, queries);
    this->arrays.emplace_back(ids.key_lengths, queries + room);
  }

  Arrays arrays;

 private:
  float scale_, lowest_ = -std::numeric_limits<float>::infinity();
  Tensor lengths_;
};

void run(CudaContext& context, const CudnnPlan& plan, const Arrays& arrays) {
  const auto workspace =
      plan.workspace_bytes() > 0 ? context.allocate(plan.workspace_bytes()) : nullptr;
  plan.run(cudnn_handle(context), arrays, workspace ? workspace->data() : nullptr);
}

}  // namespace

Tensor cudnn_attention(CudaContext& context, const AttentionArrays& arrays) {
  if (!may_ask_cudnn(context, arrays)) return {};
  const AttentionShape shape = shape_of(arrays);
  const auto* const found = compiled<AttentionGraph>(context, shape);
  if (found == nullptr) return {};
  Tensor logarithms =
      Tensor::empty({shape.items, shape.heads, shape.queries}, DType::float32, context.device());
  const Inputs inputs(context, arrays, shape, found->graph.ids, logarithms);
  run(context, *found->plan, inputs.arrays);
  if (shape.has_lengths) {
    kernels::clear_padding(context.launch(), arrays, arrays.y, true);
    check_launch("padding of attention");
  }
  return logarithms;
}

bool cudnn_attention_gradient(CudaContext& context, const AttentionArrays& arrays,
                              const Tensor& logarithms, const kernels::AttentionGradients& to) {
  // cuDNN's support table of the gradient has wider heads only for Hopper.
  if (!may_ask_cudnn(context, arrays) ||
      (arrays.head_width > 128 && context.compute_capability() != 90))
    return false;
  AttentionShape shape = shape_of(arrays);
  shape.dq_width = to.dq.width;
  shape.dk_width = to.dk.width;
  shape.dv_width = to.dv.width;
  if (needs_lengths(shape)) shape.has_lengths = true;
  const auto* const found = compiled<AttentionGradientGraph>(context, shape);
  if (found == nullptr) return false;
  const AttentionGradientGraph& graph = found->graph;
  Inputs inputs(context, arrays, shape, graph.ids, logarithms);
  const Tensor sums = Tensor::empty({shape.items, shape.heads, shape.queries, shape.head_width},
                                    DType::float32, context.device());
  float one = 1;
  const Arrays others = {
      {graph.dy, arrays.dy.values}, {graph.dq, to.dq.values}, {graph.dk, to.dk.values},
      {graph.dv, to.dv.values},     {graph.one, &one},        {graph.query_sums, sums.raw()},
      {graph.products, to.products}};
  inputs.arrays.insert(inputs.arrays.end(), others.begin(), others.end());
  run(context, *found->plan, inputs.arrays);
  if (arrays.lengths != nullptr) {
    kernels::clear_padding(context.launch(), arrays, to.dq, true);
    kernels::clear_padding(context.launch(), arrays, to.dk, false);
    kernels::clear_padding(context.launch(), arrays, to.dv, false);
    check_launch("padding of attention's gradient");
  }
  return true;
}

}  // namespace tasuki
