#include "tensor/cpu/matrix_product.hpp"

#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki {
namespace {

// Sizes of a layer, described for oneDNN.
struct Geometry {
  std::int64_t items, inputs, outputs;

  Shape x() const { return {items, inputs}; }
  Shape w() const { return {outputs, inputs}; }
  Shape y() const { return {items, outputs}; }

  OperationKey key(OperationKey::Kind kind) const {
    OperationKey key(kind);
    key.add(items).add(inputs).add(outputs);
    return key;
  }
  std::string text() const {
    return fmt::format("a matrix product {}x{}x{} in bfloat16", items, outputs, inputs);
  }
  dnnl::inner_product_forward::primitive_desc forward(bool bias) const {
    const dnnl::memory::desc b = bias ? plain_desc({outputs}) : dnnl::memory::desc();
    return describe<dnnl::inner_product_forward>(
        dnnl::prop_kind::forward_training, any_desc(x(), DType::bfloat16),
        any_desc(w(), DType::bfloat16), b, plain_desc(y()));
  }
};

}  // namespace

void linear_bfloat16(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const Geometry geometry{x.shape()[0], w.shape()[1], w.shape()[0]};
  with_dnnl([&] { return geometry.text(); },
            [&] {
              const OperationKey key = geometry.key(OperationKey::linear).add(b.defined());
              const auto operation = cached_operation(key, [&] {
                const auto pd = geometry.forward(b.defined());
                return DnnlOperation(dnnl::inner_product_forward(pd),
                                     {{DNNL_ARG_SRC, pd.src_desc()},
                                      {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                      {DNNL_ARG_BIAS, pd.bias_desc()},
                                      {DNNL_ARG_DST, pd.dst_desc()},
                                      {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
              });
              const Tensor src = operation->fit(DNNL_ARG_SRC, x);
              const Tensor weights = operation->fit(DNNL_ARG_WEIGHTS, w);
              operation->run({{DNNL_ARG_SRC, src.raw()},
                              {DNNL_ARG_WEIGHTS, weights.raw()},
                              {DNNL_ARG_BIAS, b.raw()},
                              {DNNL_ARG_DST, y.raw()}});
            });
}

void linear_bfloat16_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const Geometry geometry{dy.shape()[0], w.shape()[1], w.shape()[0]};
  with_dnnl([&] { return geometry.text(); },
            [&] {
              const auto operation = cached_operation(geometry.key(OperationKey::linear_data), [&] {
                const auto pd = describe_backward<dnnl::inner_product_backward_data>(
                    geometry.forward(false), plain_desc(geometry.x()),
                    any_desc(geometry.w(), DType::bfloat16),
                    any_desc(geometry.y(), DType::bfloat16));
                return DnnlOperation(dnnl::inner_product_backward_data(pd),
                                     {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                      {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                      {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                      {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
              });
              const Tensor upstream = operation->fit(DNNL_ARG_DIFF_DST, dy);
              const Tensor weights = operation->fit(DNNL_ARG_WEIGHTS, w);
              operation->run({{DNNL_ARG_DIFF_DST, upstream.raw()},
                              {DNNL_ARG_WEIGHTS, weights.raw()},
                              {DNNL_ARG_DIFF_SRC, dx.raw()}});
            });
}

void linear_bfloat16_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                      bool accumulate) {
  const Geometry geometry{x.shape()[0], dw.shape()[1], dw.shape()[0]};
  with_dnnl([&] { return geometry.text(); },
            [&] {
              const auto operation =
                  cached_operation(geometry.key(OperationKey::linear_weights), [&] {
                    const auto pd = describe_backward<dnnl::inner_product_backward_weights>(
                        geometry.forward(false), any_desc(geometry.x(), DType::bfloat16),
                        any_desc(geometry.w()), any_desc(geometry.y(), DType::bfloat16));
                    return DnnlOperation(dnnl::inner_product_backward_weights(pd),
                                         {{DNNL_ARG_SRC, pd.src_desc()},
                                          {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                          {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                          {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
                  });
              const bool in_place =
                  !accumulate && operation->desc(DNNL_ARG_DIFF_WEIGHTS) == plain_desc(dw.shape());
              const Tensor gradient = in_place ? dw : operation->make(DNNL_ARG_DIFF_WEIGHTS);
              const Tensor src = operation->fit(DNNL_ARG_SRC, x);
              const Tensor upstream = operation->fit(DNNL_ARG_DIFF_DST, dy);
              operation->run({{DNNL_ARG_SRC, src.raw()},
                              {DNNL_ARG_DIFF_DST, upstream.raw()},
                              {DNNL_ARG_DIFF_WEIGHTS, gradient.raw()}});
              if (!in_place) reorder_into(dw, gradient, accumulate);
            });
}

}  // namespace tasuki
