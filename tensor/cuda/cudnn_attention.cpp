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
// Until this one, the gradient of keys whose number is no multiple of 128 needs lengths.
constexpr std::size_t last_version_with_whole_tiles = 91500;
constexpr std::size_t most_plans = 100;

template <class Graph>
struct Compiled {
  explicit Compiled(const AttentionShape& shape) : graph(shape) {}

  Graph graph;
  std::unique_ptr<CudnnPlan> plan;  // nullptr: not supported
};

// What was made for each shape, device and limit of the workspace, by the calling thread: a plan
// belongs to the thread's handle.
template <class Graph>
const Compiled<Graph>* compiled(CudaContext& context, const AttentionShape& shape) {
  const cudnnHandle_t handle = cudnn_handle(context);
  using Key = std::tuple<int, AttentionShape, std::size_t>;
  thread_local std::map<Key, std::unique_ptr<Compiled<Graph>>> all;
  const std::size_t limit = cuda_settings().workspace_limit;
  const Key key = {context.device().index, shape, limit};
  const auto found = all.find(key);
  if (found != all.end()) return found->second.get();
  if (all.size() == most_plans)
    log_verbose("attention: cuDNN has compiled for {} shapes; further ones are left to our kernels",
                most_plans);
  if (all.size() >= most_plans) return nullptr;
  auto made = std::make_unique<Compiled<Graph>>(shape);
  made->plan = make_plan(made->graph.graph, handle, limit);
  log_verbose("attention of {} x {} heads, {} queries, {} keys, {} columns: {}", shape.items,
              shape.heads, shape.queries, shape.keys, shape.head_width,
              made->plan ? "by cuDNN" : "not supported by cuDNN");
  return (all[key] = std::move(made)).get();
}

bool is_switched_off() {
  const char* const choice = std::getenv("TASUKI_GPU_ATTENTION");
  return choice != nullptr && std::string_view(choice) == "own";
}

// What cuDNN is not asked for.
bool is_out_of_question(const CudaContext& context, const AttentionArrays& arrays) {
  return arrays.type == DType::float32 || !arrays.has_packs || arrays.k.rows == 0 ||
         (arrays.q.rows == 1 && arrays.k.rows == 1) || context.compute_capability() < 80 ||
         cudnnGetVersion() < first_version || is_switched_off();
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
  if (is_out_of_question(context, arrays)) return {};
  const AttentionShape shape = shape_of(arrays);
  const auto* const found = compiled<AttentionGraph>(context, shape);
  if (found == nullptr || found->plan == nullptr) return {};
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
  if (is_out_of_question(context, arrays) ||
      (arrays.head_width > 128 && context.compute_capability() != 90))
    return false;
  AttentionShape shape = shape_of(arrays);
  shape.dq_width = to.dq.width;
  shape.dk_width = to.dk.width;
  shape.dv_width = to.dv.width;
  if (shape.keys % 128 != 0 && cudnnGetVersion() <= last_version_with_whole_tiles)
    shape.has_lengths = true;
  const auto* const found = compiled<AttentionGradientGraph>(context, shape);
  if (found == nullptr || found->plan == nullptr) return false;
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
