#include "tensor/cpu/dnnl_normalization.hpp"

#include <bit>

#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki {
namespace {

using dnnl::normalization_flags;

// N x C is passed to oneDNN as N x C x 1 x 1 with channels innermost, and plain images of one
// pixel, which are the same memory, likewise: oneDNN takes the two orders of one pixel for equal,
// and may take from its cache a forward pass in one order whose gradient it lacks in the other.
dnnl::memory::desc image_desc(const Tensor& x) {
  const Shape& shape = x.shape();
  const bool is_one_pixel = shape.rank() == 2 || (x.is_plain() && shape[2] * shape[3] == 1);
  if (!is_one_pixel) return desc_of(x);
  const dnnl::memory::dims dims = {shape[0], shape[1], 1, 1};
  return {dims, element_type(desc_of(x)), dnnl::memory::format_tag::nhwc};
}

normalization_flags flags_of(bool relu, Statistics statistics) {
  normalization_flags flags = normalization_flags::use_scale | normalization_flags::use_shift;
  if (relu) flags |= normalization_flags::fuse_norm_relu;
  if (statistics == Statistics::given) flags |= normalization_flags::use_global_stats;
  return flags;
}

OperationKey key_of(OperationKey::Kind kind, const Tensor& x, float eps, bool relu,
                    Statistics statistics) {
  OperationKey key(kind);
  key.add(x).add(std::bit_cast<std::int32_t>(eps)).add(relu);
  key.add(statistics == Statistics::given);
  return key;
}

dnnl::batch_normalization_forward::primitive_desc forward_of(const Tensor& x, float eps, bool relu,
                                                             bool inference,
                                                             Statistics statistics) {
  return describe_batch_norm(
      inference ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
      image_desc(x), eps, flags_of(relu, statistics));
}

// Inference has no workspace: its descriptor is empty.
OperationPointer forward_operation(const Tensor& x, float eps, bool relu, bool inference,
                                   Statistics statistics) {
  const auto kind = inference ? OperationKey::batch_norm_inference : OperationKey::batch_norm;
  return cached_operation(key_of(kind, x, eps, relu, statistics), [&] {
    const auto pd = forward_of(x, eps, relu, inference, statistics);
    const dnnl::memory::desc per_channel = plain_desc({x.shape()[1]});
    return DnnlOperation(dnnl::batch_normalization_forward(pd),
                         {{DNNL_ARG_SRC, pd.src_desc()},
                          {DNNL_ARG_DST, pd.dst_desc()},
                          {DNNL_ARG_MEAN, pd.mean_desc()},
                          {DNNL_ARG_VARIANCE, pd.variance_desc()},
                          {DNNL_ARG_SCALE, per_channel},
                          {DNNL_ARG_SHIFT, per_channel},
                          {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                          {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
  });
}

OperationPointer backward_operation(const Tensor& x, float eps, bool relu, Statistics statistics) {
  return cached_operation(key_of(OperationKey::batch_norm_backward, x, eps, relu, statistics), [&] {
    const auto pd = describe_batch_norm_backward(forward_of(x, eps, relu, false, statistics),
                                                 image_desc(x), eps, flags_of(relu, statistics));
    const dnnl::memory::desc per_channel = plain_desc({x.shape()[1]});
    return DnnlOperation(dnnl::batch_normalization_backward(pd),
                         {{DNNL_ARG_SRC, pd.src_desc()},
                          {DNNL_ARG_MEAN, pd.mean_desc()},
                          {DNNL_ARG_VARIANCE, pd.variance_desc()},
                          {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                          {DNNL_ARG_SCALE, per_channel},
                          {batch_norm_backward_shift, per_channel},
                          {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                          {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                          {DNNL_ARG_DIFF_SCALE, per_channel},
                          {DNNL_ARG_DIFF_SHIFT, per_channel},
                          {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
  });
}

}  // namespace

std::string text_of_norm(const Tensor& x) {
  return fmt::format("batch normalisation of {}", x.shape().text());
}

void check_norm_shapes(const Tensor& x, std::initializer_list<const Tensor*> per_channel) {
  const Shape& shape = x.shape();
  TASUKI_CHECK(shape.rank() == 2 || shape.rank() == 4, "{}: N x C or N x C x H x W is needed",
               text_of_norm(x));
  TASUKI_CHECK(is_activation_type(x.dtype()), "{}: expected values of float32 or 16 bits, found {}",
               text_of_norm(x), name_of(x.dtype()));
  for (const Tensor* values : per_channel)
    TASUKI_CHECK(values->shape() == Shape{shape[1]} && values->dtype() == DType::float32,
                 "{}: a parameter of {} {}", text_of_norm(x), name_of(values->dtype()),
                 values->shape().text());
}

const BatchNormWorkspace& kept_of(const BatchNormResult& forward, const Tensor& x) {
  const auto* const kept = dynamic_cast<const BatchNormWorkspace*>(forward.workspace.get());
  TASUKI_CHECK(kept != nullptr, "{}: the forward pass kept nothing for the backward pass",
               text_of_norm(x));
  return *kept;
}

void normalise(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps, bool relu,
               Statistics statistics, BatchNormResult& result) {
  const auto operation = forward_operation(x, eps, relu, false, statistics);
  auto kept = std::make_shared<BatchNormWorkspace>();
  kept->passed = allocate_host(operation->desc(DNNL_ARG_WORKSPACE).get_size());
  result.y = empty_like(x);
  operation->run({{DNNL_ARG_SRC, x.raw()},
                  {DNNL_ARG_DST, result.y.raw()},
                  {DNNL_ARG_MEAN, result.mean.raw()},
                  {DNNL_ARG_VARIANCE, result.variance.raw()},
                  {DNNL_ARG_SCALE, gamma.raw()},
                  {DNNL_ARG_SHIFT, beta.raw()},
                  {DNNL_ARG_WORKSPACE, kept->passed->data()}});
  result.workspace = std::move(kept);
}

Tensor normalised(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                  const Tensor& variance, float eps, bool relu) {
  const auto operation = forward_operation(x, eps, relu, true, Statistics::given);
  Tensor y = empty_like(x);
  operation->run({{DNNL_ARG_SRC, x.raw()},
                  {DNNL_ARG_DST, y.raw()},
                  {DNNL_ARG_MEAN, mean.raw()},
                  {DNNL_ARG_VARIANCE, variance.raw()},
                  {DNNL_ARG_SCALE, gamma.raw()},
                  {DNNL_ARG_SHIFT, beta.raw()}});
  return y;
}

Tensor differentiate(const Tensor& x, const BatchNormResult& forward, const Tensor& dy,
                     const Tensor& gamma, const Tensor& beta, float eps, bool relu,
                     Statistics statistics, const Tensor& dgamma, const Tensor& dbeta) {
  const BatchNormWorkspace& kept = kept_of(forward, x);
  const auto operation = backward_operation(x, eps, relu, statistics);
  const Tensor upstream = reordered(dy, desc_of(x));
  Tensor dx = empty_like(x);
  operation->run({{DNNL_ARG_SRC, x.raw()},
                  {DNNL_ARG_MEAN, forward.mean.raw()},
                  {DNNL_ARG_VARIANCE, forward.variance.raw()},
                  {DNNL_ARG_DIFF_DST, upstream.raw()},
                  {DNNL_ARG_SCALE, gamma.raw()},
                  {batch_norm_backward_shift, beta.raw()},
                  {DNNL_ARG_WORKSPACE, kept.passed->data()},
                  {DNNL_ARG_DIFF_SRC, dx.raw()},
                  {DNNL_ARG_DIFF_SCALE, dgamma.raw()},
                  {DNNL_ARG_DIFF_SHIFT, dbeta.raw()}});
  return dx;
}

}  // namespace tasuki
