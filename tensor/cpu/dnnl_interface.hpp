// oneDNN's interface, alike for versions 2.6 to 3.x, which differ in how they describe primitives
// and orders of elements. No other file includes oneDNN's headers.
#pragma once

#include <oneapi/dnnl/dnnl_debug.h>

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>

namespace tasuki {

// --- the library ---

// That it is compiled for: 2 or 3.
inline constexpr int dnnl_major = DNNL_VERSION_MAJOR;

// Of the library that is loaded, with what its threads come from: "2.6.3 (OMP)".
std::string dnnl_version_text();
// Whether it uses all of these instructions on this processor.
bool has_instructions(dnnl::cpu_isa set);
// Whether its generated sgemm, alone and in primitives, keeps its stack pointer in a block of the
// heap (core/alternate_stack.hpp).
bool sgemm_needs_alternate_stacks();

const dnnl::engine& dnnl_engine();
// Attributes of every primitive: the caller provides the scratchpad, and results are the same bits
// each time, which oneDNN promises from 3.4 on where it is asked to.
dnnl::primitive_attr primitive_attributes();

// --- orders of elements ---

dnnl::memory::data_type element_type(const dnnl::memory::desc& desc);
std::span<const dnnl_dim_t> axis_sizes(const dnnl::memory::desc& desc);  // a part of it
std::span<const dnnl_dim_t> axis_sizes(dnnl::memory::desc&&) = delete;

// Blocks of elements, possibly in larger blocks. Spans are parts of the descriptor.
struct BlockedOrder {
  std::span<const dnnl_dim_t> strides;  // of each axis, between outermost blocks
  std::span<const dnnl_dim_t> sizes;    // of blocks, from the outermost to the innermost
  std::span<const dnnl_dim_t> axes;     // that these blocks split
};
// Orders of other kinds have no strides.
BlockedOrder blocked_order(const dnnl::memory::desc& desc);
BlockedOrder blocked_order(dnnl::memory::desc&&) = delete;

// Has the memory refer to this address. oneDNN 2 writes zeros to the padding of blocked orders
// there; oneDNN 3 expects them, and its primitives write them behind their results.
void set_address(const dnnl::memory& memory, const void* address, const dnnl::stream& stream);

// --- descriptors of primitives ---

// `arguments`: what oneDNN 3 takes between the engine and the attributes.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return {typename Primitive::desc(arguments...), primitive_attributes(), dnnl_engine()};
#else
  return {dnnl_engine(), arguments..., primitive_attributes()};
#endif
}

// The same of a backward pass, for this forward pass.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_backward(const Forward& forward,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return {typename Primitive::desc(arguments...), primitive_attributes(), dnnl_engine(), forward};
#else
  return {dnnl_engine(), arguments..., forward, primitive_attributes()};
#endif
}

// What becomes of a product, in this order.
struct ProductEnd {
  bool accumulate = false;  // adds to the result's memory
  bool relu = false;        // clips at 0
  float scale = 1;
};
// c = a b + bias, which may be empty.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b,
                                             const dnnl::memory::desc& bias,
                                             const dnnl::memory::desc& c, const ProductEnd& end);

// Windows without gaps.
struct PoolingWindow {
  dnnl::memory::dims strides, kernel, pad_begin, pad_end;
};
dnnl::pooling_forward::primitive_desc describe_pooling(dnnl::prop_kind kind,
                                                       dnnl::algorithm algorithm,
                                                       const dnnl::memory::desc& x,
                                                       const dnnl::memory::desc& y,
                                                       const PoolingWindow& window);
dnnl::pooling_backward::primitive_desc describe_pooling_backward(
    const dnnl::pooling_forward::primitive_desc& forward, dnnl::algorithm algorithm,
    const dnnl::memory::desc& x, const dnnl::memory::desc& y, const PoolingWindow& window);

// Results and gradients are in the order of x.
dnnl::batch_normalization_forward::primitive_desc describe_batch_norm(
    dnnl::prop_kind kind, const dnnl::memory::desc& x, float eps, dnnl::normalization_flags flags);
dnnl::batch_normalization_backward::primitive_desc describe_batch_norm_backward(
    const dnnl::batch_normalization_forward::primitive_desc& forward, const dnnl::memory::desc& x,
    float eps, dnnl::normalization_flags flags);

// DNNL_ARG_SHIFT of a backward pass: oneDNN 2 wants it although no gradient depends on it. oneDNN 3
// refuses it, and passes over 0, which is no argument.
inline constexpr int batch_norm_backward_shift = dnnl_major == 2 ? DNNL_ARG_SHIFT : 0;

// Local response normalisation over `window` channels; results and gradients in the order of x.
struct ChannelWindow {
  dnnl::memory::dim window;
  float alpha, beta, k;
};
dnnl::lrn_forward::primitive_desc describe_response_norm(dnnl::prop_kind kind,
                                                         const dnnl::memory::desc& x,
                                                         const ChannelWindow& window);
dnnl::lrn_backward::primitive_desc describe_response_norm_backward(
    const dnnl::lrn_forward::primitive_desc& forward, const dnnl::memory::desc& x,
    const ChannelWindow& window);

}  // namespace tasuki
