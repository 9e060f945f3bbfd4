#include "tensor/cuda/attention_graphs.hpp"

namespace tasuki {
namespace {

using Id = CudnnGraph::Id;

// The heads of an array, N x heads x T x d.
CudnnArray heads_of(const AttentionShape& shape, std::int64_t rows, std::int64_t width) {
  return {shape.type,
          {shape.items, shape.heads, rows, shape.head_width},
          {rows * width, shape.head_width, width, 1}};
}

CudnnArray transposed(const CudnnArray& array) {
  const auto& [type, sizes, steps] = array;
  return {type, {sizes[0], sizes[1], sizes[3], sizes[2]}, {steps[0], steps[1], steps[3], steps[2]}};
}

// N x heads x queries x keys.
CudnnSizes scores_of(const AttentionShape& shape) {
  return {shape.items, shape.heads, shape.queries, shape.keys};
}

// N x heads x queries x 1.
CudnnArray rows_of(const AttentionShape& shape) {
  const CudnnSizes sizes = {shape.items, shape.heads, shape.queries, 1};
  return {CUDNN_DATA_FLOAT, sizes, plain_steps(sizes)};
}

CudnnArray results_of(const AttentionShape& shape) {
  return heads_of(shape, shape.queries, shape.heads * shape.head_width);
}

AttentionIds add_arrays(CudnnGraph& graph, const AttentionShape& shape) {
  AttentionIds ids{};
  ids.q = graph.array(heads_of(shape, shape.queries, shape.q_width));
  ids.k = graph.array(transposed(heads_of(shape, shape.keys, shape.k_width)));
  ids.scale = graph.number();
  if (shape.causal || shape.has_lengths) ids.lowest = graph.number();
  if (shape.has_lengths) {
    const CudnnArray lengths = {CUDNN_DATA_INT32, {shape.items, 1, 1, 1}, {1, 1, 1, 1}};
    ids.query_lengths = graph.array(lengths);
    ids.key_lengths = graph.array(lengths);
  }
  ids.statistics = graph.array(rows_of(shape));
  return ids;
}

// scale Q K^T
Id add_scores(CudnnGraph& graph, const AttentionIds& ids, const AttentionShape& shape) {
  const Id products = graph.inner(CUDNN_DATA_FLOAT, scores_of(shape));
  graph.multiply(ids.q, ids.k, products, {ids.query_lengths, ids.key_lengths, 0});
  const Id scores = graph.inner(CUDNN_DATA_FLOAT, scores_of(shape));
  graph.combine(CUDNN_POINTWISE_MUL, products, ids.scale, scores);
  return scores;
}

// Minus infinity where a query does not see a key.
Id add_masks(CudnnGraph& graph, const AttentionIds& ids, const AttentionShape& shape, Id scores) {
  const auto index = [&](std::int64_t axis) {
    const Id made = graph.inner(CUDNN_DATA_INT32, scores_of(shape));
    graph.index_along(axis, scores, made);
    return made;
  };
  const auto compare = [&](cudnnPointwiseMode_t function, Id a, Id b) {
    const Id made = graph.inner(CUDNN_DATA_BOOLEAN, scores_of(shape));
    graph.combine(function, a, b, made);
    return made;
  };
  const auto mask = [&](Id condition) {
    const Id made = graph.inner(CUDNN_DATA_FLOAT, scores_of(shape));
    graph.select(condition, scores, ids.lowest, made);
    scores = made;
  };
  if (shape.has_lengths) {
    const Id row = index(2), column = index(3);
    const Id is_query = compare(CUDNN_POINTWISE_CMP_LT, row, ids.query_lengths);
    const Id is_key = compare(CUDNN_POINTWISE_CMP_LT, column, ids.key_lengths);
    mask(compare(CUDNN_POINTWISE_LOGICAL_AND, is_query, is_key));
  }
  if (shape.causal) {
    const Id row = index(2), column = index(3);
    mask(compare(CUDNN_POINTWISE_CMP_GE, row, column));
  }
  return scores;
}

}  // namespace

AttentionGraph::AttentionGraph(const AttentionShape& shape) : ids(add_arrays(graph, shape)) {
  ids.v = graph.array(heads_of(shape, shape.keys, shape.v_width));
  ids.y = graph.array(results_of(shape));
  const auto scores_like = [&](cudnnDataType_t type) {
    return graph.inner(type, scores_of(shape));
  };
  const auto row = [&] { return graph.inner(rows_of(shape)); };
  const Id scores = add_masks(graph, ids, shape, add_scores(graph, ids, shape));
  const Id largest = row(), centred = scores_like(CUDNN_DATA_FLOAT),
           powers = scores_like(CUDNN_DATA_FLOAT), sums = row(), logarithms = row(),
           weights = scores_like(shape.type);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  graph.combine(CUDNN_POINTWISE_SUB, scores, largest, centred);
  graph.map(CUDNN_POINTWISE_EXP, centred, powers);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sums);
  graph.map(CUDNN_POINTWISE_LOG, sums, logarithms);
  graph.combine(CUDNN_POINTWISE_ADD, largest, logarithms, ids.statistics);
  graph.combine(CUDNN_POINTWISE_DIV, powers, sums, weights);
  graph.multiply(weights, ids.v, ids.y, {ids.query_lengths, 0, ids.key_lengths});
}

AttentionGradientGraph::AttentionGradientGraph(const AttentionShape& shape)
    : ids(add_arrays(graph, shape)) {
  const CudnnArray k = heads_of(shape, shape.keys, shape.k_width);
  ids.v = graph.array(transposed(heads_of(shape, shape.keys, shape.v_width)));
  ids.y = graph.array(results_of(shape));
  dy = graph.array(results_of(shape));
  dq = graph.array(heads_of(shape, shape.queries, shape.dq_width));
  dk = graph.array(heads_of(shape, shape.keys, shape.dk_width));
  dv = graph.array(heads_of(shape, shape.keys, shape.dv_width));
  one = graph.number();
  const CudnnSizes query_sizes = {shape.items, shape.heads, shape.queries, shape.head_width};
  query_sums = graph.array({CUDNN_DATA_FLOAT, query_sizes, plain_steps(query_sizes)});
  products = graph.array(rows_of(shape));
  const auto scores_like = [&] { return graph.inner(CUDNN_DATA_FLOAT, scores_of(shape)); };
  // An array of scores as the operand of a product over queries.
  const auto by_keys = [&](Id x) {
    const CudnnSizes sizes = scores_of(shape);
    const Id made = graph.inner(transposed({shape.type, sizes, plain_steps(sizes)}));
    graph.reorder(x, made);
    return made;
  };
  const CudnnGraph::Counts of_keys = {ids.key_lengths, 0, ids.query_lengths};
  // Each query's product of y and dy.
  const Id factors = graph.inner(CUDNN_DATA_FLOAT, query_sizes);
  const Id sums = graph.inner(rows_of(shape));
  graph.combine(CUDNN_POINTWISE_MUL, dy, ids.y, factors);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, factors, sums);
  graph.combine(CUDNN_POINTWISE_MUL, sums, one, products);
  // The softmax, from its statistics, then the gradient of V.
  const Id centred = scores_like(), weights = scores_like();
  graph.combine(CUDNN_POINTWISE_SUB, add_scores(graph, ids, shape), ids.statistics, centred);
  graph.map(CUDNN_POINTWISE_EXP, add_masks(graph, ids, shape, centred), weights);
  graph.multiply(by_keys(weights), dy, dv, of_keys);
  // The gradient of the scores, then the gradients of K and Q.
  const Id slopes = scores_like(), differences = scores_like(), weighted = scores_like(),
           gradient = scores_like();
  graph.multiply(dy, ids.v, slopes, {ids.query_lengths, ids.key_lengths, 0});
  graph.combine(CUDNN_POINTWISE_SUB, slopes, products, differences);
  graph.combine(CUDNN_POINTWISE_MUL, differences, weights, weighted);
  graph.combine(CUDNN_POINTWISE_MUL, weighted, ids.scale, gradient);
  graph.multiply(by_keys(gradient), ids.q, dk, of_keys);
  const Id keys = graph.inner({CUDNN_DATA_FLOAT, k.sizes, k.steps});
  graph.reorder(ids.k, keys);
  graph.multiply(gradient, keys, query_sums, {ids.query_lengths, 0, ids.key_lengths});
  graph.map(CUDNN_POINTWISE_IDENTITY, query_sums, dq);
}

}  // namespace tasuki
