// Max and average pooling.
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/interleaved.hpp"
#include "tensor/cpu/rounded_pooling.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {
namespace {

// Data of the forward pass that the backward pass needs.
struct PoolWorkspace final : Workspace {
  std::shared_ptr<const Layout> layout;  // of x
  dnnl::memory::desc x_desc;
  std::shared_ptr<Storage> maxima;  // oneDNN's record of the largest element of each window
};

// The same for our own average pooling.
struct AverageWorkspace final : Workspace {
  bool is_interleaved = false;
  std::shared_ptr<const Layout> layout;  // of x
  Tensor x;                              // if it was clipped at 0
};

// Whether our own loops average it: interleaved, or of 16 bits with channels side by side.
bool has_own_average(const Tensor& x, const Pool2dOptions& options) {
  return options.kind == PoolKind::average && (is_interleaved(x) || can_average_rounded(x));
}

Tensor own_average(const PoolingGeometry& geometry, const Tensor& x, bool relu,
                   std::shared_ptr<Workspace>* workspace) {
  if (workspace != nullptr) {
    auto kept = std::make_shared<AverageWorkspace>();
    kept->is_interleaved = is_interleaved(x);
    kept->layout = x.layout();
    if (relu) kept->x = x;
    *workspace = std::move(kept);
  }
  return is_interleaved(x) ? interleaved_average(geometry, x, relu)
                           : rounded_average(geometry, x, relu);
}

// A pooling, described for oneDNN.
struct Geometry : PoolingGeometry {
  Geometry(const Shape& x, const Pool2dOptions& options, DType images)
      : PoolingGeometry(x, options), type(images) {}
  DType type;

  dnnl::algorithm algorithm() const {
    return options.kind == PoolKind::max ? dnnl::algorithm::pooling_max
                                         : dnnl::algorithm::pooling_avg_include_padding;
  }
  PoolingWindow window() const {
    return {.strides = {options.stride_h, options.stride_w},
            .kernel = {options.kernel_h, options.kernel_w},
            .pad_begin = {options.pad_h, options.pad_w},
            .pad_end = {pad_end_h, pad_end_w}};
  }

  OperationKey key(OperationKey::Kind kind, const std::shared_ptr<const Layout>& layout) const {
    OperationKey key(kind);
    key.add(x).add(y).add(layout).add(static_cast<std::int64_t>(type));
    key.add(static_cast<std::int64_t>(options.kind)).add(options.kernel_h).add(options.kernel_w);
    key.add(options.stride_h).add(options.stride_w).add(options.pad_h).add(options.pad_w);
    return key;
  }

  dnnl::pooling_forward::primitive_desc forward(const dnnl::memory::desc& x_desc,
                                                dnnl::prop_kind kind) const {
    return describe_pooling(kind, algorithm(), x_desc, any_desc(y, type), window());
  }
};

}  // namespace

Tensor CpuBackend::pool2d(const Tensor& input, const Pool2dOptions& options,
                          std::shared_ptr<Workspace>* workspace) {
  if (!is_native(input.dtype()) && has_16_bits(input.dtype()))
    return in_type(pool2d(in_float32(input), options, workspace), input.dtype());
  const Geometry geometry(input.shape(), options, input.dtype());
  TASUKI_CHECK(is_native(geometry.type), "{}: expected images of float32 or 16 bits, found {}",
               geometry.text(), name_of(geometry.type));
  if (workspace != nullptr) *workspace = nullptr;
  if (geometry.y.count() == 0) return Tensor::empty(geometry.y, geometry.type);
  if (has_own_average(input, options)) return own_average(geometry, input, false, workspace);
  const Tensor x = dnnl_order(input);
  return with_dnnl(
      [&] { return geometry.text(); },
      [&] {
        const bool training = workspace != nullptr;
        const auto operation =
            cached_operation(geometry.key(OperationKey::pool, x.layout()).add(training), [&] {
              const auto pd =
                  geometry.forward(desc_of(x), training ? dnnl::prop_kind::forward_training
                                                        : dnnl::prop_kind::forward_inference);
              return DnnlOperation(dnnl::pooling_forward(pd),
                                   {{DNNL_ARG_SRC, pd.src_desc()},
                                    {DNNL_ARG_DST, pd.dst_desc()},
                                    {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                    {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
            });
        Tensor y = operation->make(DNNL_ARG_DST);
        std::shared_ptr<Storage> maxima;
        if (training) {
          auto kept = std::make_shared<PoolWorkspace>();
          kept->layout = x.layout();
          kept->x_desc = desc_of(x);
          kept->maxima = maxima = allocate_host(operation->desc(DNNL_ARG_WORKSPACE).get_size());
          *workspace = std::move(kept);
        }
        operation->run({{DNNL_ARG_SRC, x.raw()},
                        {DNNL_ARG_DST, y.raw()},
                        {DNNL_ARG_WORKSPACE, maxima ? maxima->data() : nullptr}});
        return y;
      });
}

Tensor CpuBackend::pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                   const Pool2dOptions& options, const Workspace* workspace) {
  if (!is_native(dy.dtype()) && has_16_bits(dy.dtype()))
    return in_type(pool2d_backward(in_float32(dy), x_shape, options, workspace), dy.dtype());
  const Geometry geometry(x_shape, options, dy.dtype());
  TASUKI_CHECK(dy.shape() == geometry.y, "{}: a gradient of {}", geometry.text(),
               dy.shape().text());
  if (x_shape.count() == 0) return Tensor::empty(x_shape, dy.dtype());
  if (const auto* const kept = dynamic_cast<const AverageWorkspace*>(workspace))
    return kept->is_interleaved ? interleaved_average_backward(geometry, dy, kept->x)
                                : rounded_average_backward(geometry, dy, kept->layout, kept->x);
  const auto* const kept = dynamic_cast<const PoolWorkspace*>(workspace);
  TASUKI_CHECK(kept != nullptr, "{}: the forward pass kept nothing for the backward pass",
               geometry.text());
  const auto what = [&] { return fmt::format("the gradient of {}", geometry.text()); };
  return with_dnnl(what, [&] {
    const auto operation =
        cached_operation(geometry.key(OperationKey::pool_backward, kept->layout), [&] {
          const auto forward = geometry.forward(kept->x_desc, dnnl::prop_kind::forward_training);
          const auto pd = describe_pooling_backward(forward, geometry.algorithm(), kept->x_desc,
                                                    forward.dst_desc(), geometry.window());
          return DnnlOperation(dnnl::pooling_backward(pd),
                               {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
        });
    Tensor dx = operation->make(DNNL_ARG_DIFF_SRC);
    const Tensor upstream = operation->fit(DNNL_ARG_DIFF_DST, dy);
    operation->run({{DNNL_ARG_DIFF_DST, upstream.raw()},
                    {DNNL_ARG_DIFF_SRC, dx.raw()},
                    {DNNL_ARG_WORKSPACE, kept->maxima->data()}});
    return dx;
  });
}

Tensor CpuBackend::relu_pool2d(const Tensor& x, const Pool2dOptions& options,
                               std::shared_ptr<Workspace>* workspace) {
  const Geometry geometry(x.shape(), options, x.dtype());
  if (geometry.y.count() == 0 || !has_own_average(x, options))
    return Backend::relu_pool2d(x, options, workspace);
  return own_average(geometry, x, true, workspace);
}

Tensor CpuBackend::relu_pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                        const Pool2dOptions& options, const Workspace* workspace) {
  if (dynamic_cast<const AverageWorkspace*>(workspace) != nullptr)
    return pool2d_backward(dy, x_shape, options, workspace);
  return Backend::relu_pool2d_backward(dy, x_shape, options, workspace);
}

}  // namespace tasuki
