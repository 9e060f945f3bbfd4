// Attention as graphs of cuDNN's operations, in the form in which cuDNN finds its fused kernels
// (flash attention): the pattern of matmul, scale, masks, softmax and matmul, and the one of its
// gradient. cuDNN supports them for 16-bit values, from compute capability 8.0 on.
#pragma once

#include "tensor/cuda/cudnn_graph.hpp"

namespace tasuki {

// Everything that the graphs depend on. Arrays are N x T x W; W may differ.
struct AttentionShape {
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  std::int64_t items = 0, heads = 0, queries = 0, keys = 0, head_width = 0;
  bool causal = false;
  bool has_lengths = false;  // items have fewer queries and keys than their arrays
  std::int64_t q_width = 0, k_width = 0, v_width = 0;     // W
  std::int64_t dq_width = 0, dk_width = 0, dv_width = 0;  // for the gradient

  auto operator<=>(const AttentionShape&) const = default;
};

// Of what both graphs have. Lengths are int32, N each.
struct AttentionIds {
  CudnnGraph::Id q, k, v, y, statistics, scale, lowest, query_lengths, key_lengths;
};

// y, plain, and `statistics`, float32, N x heads x T: the logarithm of each query's sum of
// exponentials of scores. Rows beyond an item's length are undefined.
struct AttentionGraph {
  CudnnGraph graph;
  AttentionIds ids;

  explicit AttentionGraph(const AttentionShape& shape);
};

// The gradients, from dy, which is plain. Rows beyond an item's length are undefined. `query_sums`
// and `products` are memory for the kernels: float32, N x heads x queries x head width, and N x
// heads x queries.
struct AttentionGradientGraph {
  CudnnGraph graph;
  AttentionIds ids;
  CudnnGraph::Id dy, dq, dk, dv, one, query_sums, products;

  explicit AttentionGradientGraph(const AttentionShape& shape);
};

}  // namespace tasuki
