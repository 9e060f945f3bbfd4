#include "tensor/cpu/dnnl_normalization.hpp"

#include <bit>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/interleaved.hpp"

namespace tasuki {
namespace {

// oneDNN's forward pass keeps values for its backward pass, which takes x in the same layout.
struct ResponseNormWorkspace final : Workspace {
  std::shared_ptr<const Layout> layout;
  dnnl::memory::desc x_desc;
  std::shared_ptr<Storage> kept;  // may be null
};

// oneDNN counts an even window differently, and divides alpha by the window's size.
ChannelWindow window_of(const ResponseNormOptions& options) {
  const std::int64_t window = 2 * (options.window / 2) + 1;
  return {window, options.alpha * static_cast<float>(window), options.beta, options.k};
}

// Channels in blocks, of which oneDNN adds up each window. In plain order it carries a sum of
// squares from channel to channel, adding the next and subtracting the last, so that small values
// behind a large one drown in its rounding; with channels innermost, its gradients of wide windows
// are wrong. Numbers of channels that make no whole blocks stay in plain order, where it has a
// simple loop for them.
Tensor in_blocks(const Tensor& source) {
  using Tag = dnnl::memory::format_tag;
  Tensor x = dnnl_order(source);
  const std::int64_t channels = x.shape()[1];
  const auto order = [&](Tag tag) {
    return dnnl::memory::desc({x.shape().begin(), x.shape().end()}, dnnl::memory::data_type::f32,
                              tag);
  };
  const dnnl::memory::desc own = desc_of(x);
  if (own == order(Tag::nChw16c) || own == order(Tag::nChw8c)) return x;
  if (channels % 8 != 0) return x.plain();
  const bool is_wide = channels % 16 == 0 && has_instructions(dnnl::cpu_isa::avx512_core);
  return reordered(x, order(is_wide ? Tag::nChw16c : Tag::nChw8c));
}

std::string describe(const Shape& shape) {
  return fmt::format("local_response_norm of {}", shape.text());
}

OperationKey key_of(OperationKey::Kind kind, const Shape& shape,
                    const std::shared_ptr<const Layout>& layout,
                    const ResponseNormOptions& options) {
  OperationKey key(kind);
  key.add(shape).add(layout).add(window_of(options).window);
  for (const float value : {options.k, options.alpha, options.beta})
    key.add(std::bit_cast<std::int32_t>(value));
  return key;
}

}  // namespace

Tensor cpu_response_norm(const Tensor& source, const ResponseNormOptions& options,
                         std::shared_ptr<Workspace>* workspace) {
  check_response_norm(source.shape(), options);
  TASUKI_CHECK(source.dtype() == DType::float32, "{}: expected images of float32, found {}",
               describe(source.shape()), name_of(source.dtype()));
  if (workspace != nullptr) *workspace = std::make_shared<ResponseNormWorkspace>();
  if (source.count() == 0) return Tensor::empty(source.shape());
  return with_dnnl(
      [&] { return describe(source.shape()); },
      [&] {
        const Tensor x = in_blocks(source);
        const bool training = workspace != nullptr;
        const auto operation = cached_operation(
            key_of(OperationKey::lrn, x.shape(), x.layout(), options).add(training), [&] {
              const auto pd = describe_response_norm(
                  training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
                  desc_of(x), window_of(options));
              return DnnlOperation(dnnl::lrn_forward(pd),
                                   {{DNNL_ARG_SRC, pd.src_desc()},
                                    {DNNL_ARG_DST, pd.dst_desc()},
                                    {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                    {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
            });
        Tensor y = operation->make(DNNL_ARG_DST);
        std::shared_ptr<Storage> kept;
        if (training) {
          auto saved = std::make_shared<ResponseNormWorkspace>();
          saved->layout = x.layout();
          saved->x_desc = desc_of(x);
          if (const std::size_t bytes = operation->desc(DNNL_ARG_WORKSPACE).get_size(); bytes > 0)
            saved->kept = kept = allocate_host(bytes);
          *workspace = std::move(saved);
        }
        operation->run({{DNNL_ARG_SRC, x.raw()},
                        {DNNL_ARG_DST, y.raw()},
                        {DNNL_ARG_WORKSPACE, kept ? kept->data() : nullptr}});
        return y;
      });
}

Tensor cpu_response_norm_backward(const Tensor& source, const Tensor& dy,
                                  const ResponseNormOptions& options, const Workspace& workspace) {
  check_response_norm(source.shape(), options);
  TASUKI_CHECK(dy.shape() == source.shape(), "{}: a gradient of {}", describe(source.shape()),
               dy.shape().text());
  if (source.count() == 0) return Tensor::empty(source.shape());
  const auto& kept = dynamic_cast<const ResponseNormWorkspace&>(workspace);
  const auto what = [&] { return fmt::format("the gradient of {}", describe(source.shape())); };
  return with_dnnl(what, [&] {
    const auto operation = cached_operation(
        key_of(OperationKey::lrn_backward, source.shape(), kept.layout, options), [&] {
          const ChannelWindow window = window_of(options);
          const auto pd = describe_response_norm_backward(
              describe_response_norm(dnnl::prop_kind::forward_training, kept.x_desc, window),
              kept.x_desc, window);
          return DnnlOperation(dnnl::lrn_backward(pd),
                               {{DNNL_ARG_SRC, pd.src_desc()},
                                {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                {DNNL_ARG_WORKSPACE, pd.workspace_desc()},
                                {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
        });
    Tensor dx = operation->make(DNNL_ARG_DIFF_SRC);
    const Tensor x = operation->fit(DNNL_ARG_SRC, source);
    const Tensor upstream = operation->fit(DNNL_ARG_DIFF_DST, dy);
    operation->run({{DNNL_ARG_SRC, x.raw()},
                    {DNNL_ARG_DIFF_DST, upstream.raw()},
                    {DNNL_ARG_DIFF_SRC, dx.raw()},
                    {DNNL_ARG_WORKSPACE, kept.kept ? kept.kept->data() : nullptr}});
    return dx;
  });
}

}  // namespace tasuki
