#include "tensor/conv_algorithm.hpp"

#include <limits>
#include <vector>

#include "tensor/cpu/column_convolution.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/interleaved.hpp"
#include "tensor/cpu/own_convolution.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/rounded_winograd.hpp"
#include "tensor/cpu/tile_convolution.hpp"
#include "tensor/cpu/tile_product.hpp"
#include "tensor/cpu/timed_choice.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {
namespace {

thread_local ConvAlgorithm chosen_algorithm = ConvAlgorithm::fastest;

using Addresses = std::initializer_list<std::pair<int, const void*>>;

constexpr auto direct = dnnl::algorithm::convolution_direct,
               winograd = dnnl::algorithm::convolution_winograd;

// Images of bfloat16 are widened to float32 as they are interleaved.
Tensor widened_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                      const Tensor& b) {
  return reordered(interleaved_conv2d(geometry, x, in_float32(w), b), rounded_order(geometry.y));
}
Tensor widened_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                             const Tensor& w) {
  return reordered(interleaved_conv2d_backward_data(geometry, dy, in_float32(w)),
                   rounded_order(geometry.x));
}

constexpr OwnConvolution by_interleaving = {interleaved_conv2d, interleaved_conv2d_backward_data,
                                            interleaved_conv2d_backward_weights},
                         by_tiles = {tile_conv2d, tile_conv2d_backward_data,
                                     tile_conv2d_backward_weights},
                         by_winograd = {rounded_winograd_conv2d, rounded_winograd_backward_data,
                                        rounded_winograd_backward_weights},
                         by_columns = {column_conv2d, column_conv2d_backward_data,
                                       column_conv2d_backward_weights},
                         in_wide_numbers = {widened_conv2d, widened_backward_data,
                                            interleaved_conv2d_backward_weights};

// A convolution of images of this type, float32 or bfloat16, described for oneDNN.
struct Geometry : ConvolutionGeometry {
  Geometry(const Shape& x, const Shape& w, const Conv2dOptions& options, DType images)
      : ConvolutionGeometry(x, w, options), type(images) {}
  DType type;

  // With groups oneDNN has one more axis: G x O/G x I/G x KH x KW, in the same order of elements.
  Shape grouped() const {
    if (options.groups == 1) return w;
    return {options.groups, w[0] / options.groups, w[1], w[2], w[3]};
  }
  Tensor grouped(const Tensor& filters) const {
    return options.groups == 1 ? filters : filters.reshape(grouped());
  }
  dnnl::memory::dims strides() const { return {options.stride_h, options.stride_w}; }
  dnnl::memory::dims dilations() const { return {options.dilation_h - 1, options.dilation_w - 1}; }
  dnnl::memory::dims padding() const { return {options.pad_h, options.pad_w}; }

  OperationKey key(OperationKey::Kind kind) const {
    OperationKey key(kind);
    key.add(static_cast<std::int64_t>(chosen_algorithm)).add(x).add(w);
    key.add(static_cast<std::int64_t>(type));
    for (const std::int64_t value :
         {options.stride_h, options.stride_w, options.pad_h, options.pad_w, options.dilation_h,
          options.dilation_w, options.groups})
      key.add(value);
    return key;
  }

  // Kernels for bfloat16, which read nothing but zeros beyond the end of images.
  bool has_kernels() const { return is_native(type) && options.stride_w <= bfloat16_margin; }

  // Whether oneDNN has kernels for bfloat16 that compute this pass correctly. For AMX, 3.7.2 and
  // 3.12.1 compute wrong results if y has one column and the stride is larger than 1, and may crash
  // if some weights meet only padding. 2.6.3 leaves the gradients of such weights undefined.
  bool can_round_forward() const {
    const bool has_columns = y[3] > 1 || options.stride_w == 1;
    return has_kernels() && (dnnl_major == 2 || (has_columns && uses_every_weight()));
  }
  bool can_round_data() const { return has_kernels() && (dnnl_major == 2 || uses_every_weight()); }
  bool can_round_weights() const { return has_kernels() && uses_every_weight(); }

  // oneDNN's kernel for gradients of depthwise filters on A64FX (SVE of 512 bits; seen with 2.6.3,
  // emulated) computes wrong values where strides are above 1. It needs values in blocks of
  // channels.
  bool needs_plain_order_for_weights() const {
#if defined(__aarch64__)
    return options.groups == x[1];
#else
    return false;
#endif
  }

  // For ConvAlgorithm::by_shape: whether the products of Winograd's algorithm are wide enough to
  // pay for its transformations.
  bool is_wide() const {
    return w[0] >= 32 && w[1] >= 32;
  }

  // An image's colours, say, which fill little of a vector or a tile.
  bool has_few_inputs() const {
    return w[1] <= 4;
  }

  // Our own way to compute it, if there is one. Products on AMX are faster than the memory traffic
  // of Winograd's transformations.
  const OwnConvolution* own() const {
    if (type == DType::float32) return can_interleave(*this) ? &by_interleaving : nullptr;
    const bool has_winograd = can_use_rounded_winograd(*this);
    if (has_winograd && chosen_algorithm == ConvAlgorithm::winograd) return &by_winograd;
    if (can_use_tile_convolution(*this)) return &by_tiles;
    if (has_tiles() && can_use_columns(*this)) return &by_columns;
    if (has_winograd) return &by_winograd;
    if (columns_may_pay(*this)) return &by_columns;
    const bool fills_blocks = can_interleave(*this) && x[0] >= interleave;
    return has_few_inputs() && fills_blocks ? &in_wide_numbers : nullptr;
  }

  // Whether to bring oneDNN's results into blocks of 16 channels: batch normalisation, pooling and
  // the next convolution by tiles read that order.
  bool goes_to_tiles() const {
    return type == DType::bfloat16 && has_tiles() && options.groups == 1 &&
           y[1] % tile_channels == 0;
  }

  // Whether each weight meets a pixel for some pixel of y, rather than padding alone.
  bool uses_every_weight() const {
    const auto uses_every_tap = [](std::int64_t size, std::int64_t taps, std::int64_t results,
                                   std::int64_t stride, std::int64_t pad, std::int64_t dilation) {
      const auto meets_pixel = [&](std::int64_t tap) {
        for (std::int64_t i = 0; i < results; ++i)
          if (const std::int64_t at = i * stride + tap * dilation - pad; 0 <= at && at < size)
            return true;
        return false;
      };
      for (std::int64_t tap = 0; tap < taps; ++tap)
        if (!meets_pixel(tap)) return false;
      return true;
    };
    const Conv2dOptions& o = options;
    return uses_every_tap(x[2], w[2], y[2], o.stride_h, o.pad_h, o.dilation_h) &&
           uses_every_tap(x[3], w[3], y[3], o.stride_w, o.pad_w, o.dilation_w);
  }

  dnnl::convolution_forward::primitive_desc forward(dnnl::algorithm algorithm, bool bias) const {
    const dnnl::memory::desc b = bias ? plain_desc({w[0]}) : dnnl::memory::desc();
    return describe<dnnl::convolution_forward>(
        dnnl::prop_kind::forward_training, algorithm, any_desc(x, type), any_desc(grouped(), type),
        b, any_desc(y, type), strides(), dilations(), padding(), padding());
  }
};

// Images in the order and type that the operation expects. With strides, kernels for bfloat16 read
// beyond their end, so they are copied to where zeros follow.
Tensor fit_images(const Geometry& geometry, const DnnlOperation& operation, int argument,
                  const Tensor& images) {
  if (geometry.type != DType::bfloat16 || geometry.options.stride_w == 1)
    return operation.fit(argument, images);
  Tensor copy = operation.make(argument);
  reorder_into(copy, images, false);
  return copy;
}

// The operation that `make` builds for an algorithm; nothing if oneDNN does not have it.
template <class Make>
OperationPointer offered(const Make& make, dnnl::algorithm algorithm) {
  try {
    return std::make_shared<DnnlOperation>(make(algorithm));
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    throw;
  }
}

// The operation for `key`. `make(algorithm)` builds a candidate, `run(operation)` runs it like the
// caller will, with results that are discarded.
template <class Make, class Run>
OperationPointer choose(const Geometry& geometry, const OperationKey& key, const Make& make,
                        const Run& run) {
  if (OperationPointer found = find_operation(key)) return found;
  std::vector<OperationPointer> candidates;
  const auto consider = [&](dnnl::algorithm algorithm) {
    if (auto operation = offered(make, algorithm)) candidates.push_back(std::move(operation));
  };
  const bool all = chosen_algorithm == ConvAlgorithm::fastest;
  const bool by_shape = chosen_algorithm == ConvAlgorithm::by_shape && geometry.is_wide();
  if (geometry.type == DType::float32 &&
      (all || by_shape || chosen_algorithm == ConvAlgorithm::winograd))
    consider(winograd);
  if (all || candidates.empty()) consider(direct);
  TASUKI_CHECK(!candidates.empty(), "oneDNN offers no convolution for this");
  OperationPointer best = candidates.front();
  if (candidates.size() > 1) {
    double least = std::numeric_limits<double>::infinity();
    for (const OperationPointer& candidate : candidates) {
      const double taken = best_seconds([&] { run(*candidate); });
      if (taken >= least) continue;
      least = taken;
      best = candidate;
    }
  }
  keep_operation(key, best);
  return best;
}

// Whether a pass should be computed in our own way. `own` and `by_dnnl` compute it with results
// that are discarded.
template <class Own, class ByDnnl>
bool should_run_own(const Geometry& geometry, const OperationKey& key, const Own& own,
                    const ByDnnl& by_dnnl) {
  const OwnConvolution* const way = geometry.own();
  if (way == nullptr || way == &by_tiles) return way != nullptr;
  switch (chosen_algorithm) {
    case ConvAlgorithm::fastest:
      return (way != &by_interleaving || interleaving_may_pay(geometry)) &&
             is_faster(key, own, by_dnnl);
    case ConvAlgorithm::by_shape:
      return way == &by_interleaving ? interleaving_may_pay(geometry)
             : way == &by_columns    ? columns_may_pay(geometry)
                                     : way == &by_winograd && geometry.is_wide();
    case ConvAlgorithm::winograd:
      return way == &by_winograd;
    case ConvAlgorithm::interleaved:
      return way == &by_interleaving || way == &in_wide_numbers;
    case ConvAlgorithm::direct:
      break;
  }
  return false;
}

// Runs `own` or what `choose` finds among oneDNN's; if both are possible, the faster.
template <class Own, class Make, class Run>
void run_chosen(const Geometry& geometry, const OperationKey& key, const Own& own, const Make& make,
                const Run& run) {
  const auto by_dnnl = [&] { run(*choose(geometry, key, make, run)); };
  if (should_run_own(geometry, key, own, by_dnnl))
    own();
  else
    by_dnnl();
}

}  // namespace

void set_conv_algorithm(ConvAlgorithm algorithm) {
  chosen_algorithm = algorithm;
}

ConvAlgorithm conv_algorithm() {
  return chosen_algorithm;
}

Tensor CpuBackend::conv2d(const Tensor& x, const Tensor& w, const Tensor& bias,
                          const Conv2dOptions& options, Tensor* prepared, bool relu) {
  if (relu) return unary(Unary::relu, conv2d(x, w, bias, options, prepared, false), 0);
  const Geometry geometry(x.shape(), w.shape(), options, x.dtype());
  if (prepared != nullptr) *prepared = w;
  TASUKI_CHECK(!bias || (bias.shape() == Shape{w.shape()[0]} &&
                         (bias.dtype() == DType::float32 || bias.dtype() == x.dtype())),
               "{}: a bias of {} {}", geometry.text(), name_of(bias.dtype()), bias.shape().text());
  const Tensor b = in_float32(bias);
  if (geometry.y.count() == 0) return Tensor::empty(geometry.y, x.dtype());
  if (has_16_bits(x.dtype()) && !geometry.can_round_forward())
    return in_type(conv2d(in_float32(x), in_float32(w), b, options, nullptr, false), x.dtype());
  return with_dnnl([&] { return geometry.text(); },
                   [&] {
                     const auto make = [&](dnnl::algorithm algorithm) {
                       const auto pd = geometry.forward(algorithm, b.defined());
                       return DnnlOperation(dnnl::convolution_forward(pd),
                                            {{DNNL_ARG_SRC, pd.src_desc()},
                                             {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                             {DNNL_ARG_BIAS, pd.bias_desc()},
                                             {DNNL_ARG_DST, pd.dst_desc()},
                                             {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
                     };
                     Tensor y;
                     const auto run = [&](DnnlOperation& operation) {
                       y = operation.make(DNNL_ARG_DST);
                       const Tensor src = fit_images(geometry, operation, DNNL_ARG_SRC, x);
                       const Tensor weights = operation.fit(DNNL_ARG_WEIGHTS, geometry.grouped(w));
                       operation.run({{DNNL_ARG_SRC, src.raw()},
                                      {DNNL_ARG_WEIGHTS, weights.raw()},
                                      {DNNL_ARG_BIAS, b.raw()},
                                      {DNNL_ARG_DST, y.raw()}});
                       if (geometry.goes_to_tiles()) y = reordered(y, channel_blocks(geometry.y));
                       // Blocks of bfloat16 pair channels of the inputs here, and of the results in
                       // the other pass.
                       if (prepared != nullptr && geometry.type == DType::float32 &&
                           weights.shape() == w.shape())
                         *prepared = weights;
                     };
                     run_chosen(
                         geometry, geometry.key(OperationKey::conv).add(b.defined()),
                         [&] {
                           y = geometry.own()->forward(geometry, x, w, b);
                           if (prepared != nullptr) *prepared = w;
                         },
                         make, run);
                     return y;
                   });
}

Tensor CpuBackend::conv2d_backward_data(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                                        const Conv2dOptions& options) {
  const Geometry geometry(x_shape, w.shape(), options, dy.dtype());
  TASUKI_CHECK(dy.shape() == geometry.y, "{}: a gradient of {}", geometry.text(),
               dy.shape().text());
  if (x_shape.count() == 0) return Tensor::empty(x_shape, dy.dtype());
  if (has_16_bits(dy.dtype()) && !geometry.can_round_data())
    return in_type(conv2d_backward_data(in_float32(dy), in_float32(w), x_shape, options),
                   dy.dtype());
  const auto what = [&] { return fmt::format("the data gradient of {}", geometry.text()); };
  return with_dnnl(what, [&] {
    const auto make = [&](dnnl::algorithm algorithm) {
      const auto pd = describe_backward<dnnl::convolution_backward_data>(
          geometry.forward(algorithm, false), algorithm, any_desc(x_shape, geometry.type),
          any_desc(geometry.grouped(), geometry.type), any_desc(geometry.y, geometry.type),
          geometry.strides(), geometry.dilations(), geometry.padding(), geometry.padding());
      return DnnlOperation(dnnl::convolution_backward_data(pd),
                           {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                            {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                            {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
    };
    Tensor dx;
    const auto run = [&](DnnlOperation& operation) {
      dx = operation.make(DNNL_ARG_DIFF_SRC);
      const Tensor upstream = fit_images(geometry, operation, DNNL_ARG_DIFF_DST, dy);
      const Tensor weights = operation.fit(DNNL_ARG_WEIGHTS, geometry.grouped(w));
      operation.run({{DNNL_ARG_DIFF_DST, upstream.raw()},
                     {DNNL_ARG_WEIGHTS, weights.raw()},
                     {DNNL_ARG_DIFF_SRC, dx.raw()}});
    };
    run_chosen(
        geometry, geometry.key(OperationKey::conv_data),
        [&] { dx = geometry.own()->backward_data(geometry, dy, w); }, make, run);
    return dx;
  });
}

void CpuBackend::conv2d_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                         const Conv2dOptions& options, bool accumulate) {
  const Geometry geometry(x.shape(), dw.shape(), options, dy.dtype());
  TASUKI_CHECK(dy.shape() == geometry.y, "{}: a gradient of {}", geometry.text(),
               dy.shape().text());
  if (x.count() == 0) {
    if (!accumulate) dw.fill(0);
    return;
  }
  if (has_16_bits(dy.dtype()) && !geometry.can_round_weights())
    return conv2d_backward_weights(in_float32(x), in_float32(dy), dw, options, accumulate);
  const auto what = [&] { return fmt::format("the weight gradient of {}", geometry.text()); };
  with_dnnl(what, [&] {
    const auto make = [&](dnnl::algorithm algorithm) {
      const auto order = geometry.needs_plain_order_for_weights() ? plain_desc : any_desc;
      const auto pd = describe_backward<dnnl::convolution_backward_weights>(
          geometry.forward(algorithm, false), algorithm, order(geometry.x, geometry.type),
          order(geometry.grouped(), DType::float32), order(geometry.y, geometry.type),
          geometry.strides(), geometry.dilations(), geometry.padding(), geometry.padding());
      return DnnlOperation(dnnl::convolution_backward_weights(pd),
                           {{DNNL_ARG_SRC, pd.src_desc()},
                            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                            {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                            {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
    };
    Tensor gradient;
    const auto run = [&](DnnlOperation& operation) {
      gradient = operation.make(DNNL_ARG_DIFF_WEIGHTS);
      const Tensor src = fit_images(geometry, operation, DNNL_ARG_SRC, x);
      const Tensor upstream = fit_images(geometry, operation, DNNL_ARG_DIFF_DST, dy);
      operation.run({{DNNL_ARG_SRC, src.raw()},
                     {DNNL_ARG_DIFF_DST, upstream.raw()},
                     {DNNL_ARG_DIFF_WEIGHTS, gradient.raw()}});
    };
    run_chosen(
        geometry, geometry.key(OperationKey::conv_weights),
        [&] { gradient = geometry.own()->backward_weights(geometry, x, dy); }, make, run);
    reorder_into(dw.reshape(geometry.grouped()), gradient, accumulate);
  });
}

}  // namespace tasuki
