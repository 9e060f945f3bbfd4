#include "tensor/cpu/dnnl_interface.hpp"

#include <fmt/core.h>

#include <tuple>

#include "core/error.hpp"
#include "tensor/cpu/instruction_set.hpp"

namespace tasuki {
namespace {

using Desc = dnnl::memory::desc;
using Numbers = std::span<const dnnl_dim_t>;

// As oneDNN's build option ONEDNN_CPU_RUNTIME has it.
const char* runtime_name(unsigned runtime) {
  switch (runtime) {
    case DNNL_RUNTIME_SEQ:
      return "SEQ";
    case DNNL_RUNTIME_OMP:
      return "OMP";
    case DNNL_RUNTIME_TBB:
      return "TBB";
    case DNNL_RUNTIME_THREADPOOL:
      return "THREADPOOL";
    default:
      return "unknown CPU runtime";
  }
}

Numbers numbers_at(const dnnl_dims_t& first, int count) {
  return {first, static_cast<std::size_t>(count)};
}

#if DNNL_VERSION_MAJOR > 2
template <class Answer>
Answer ask(const Desc& desc, dnnl_query_t question) {
  Answer answer{};
  dnnl::error::wrap_c_api(dnnl_memory_desc_query(desc.get(), question, &answer),
                          "could not query a memory descriptor");
  return answer;
}

// A view of what dnnl::memory::desc's own functions copy.
Numbers ask_numbers(const Desc& desc, dnnl_query_t question, dnnl_query_t count) {
  return numbers_at(*ask<const dnnl_dims_t*>(desc, question), ask<int>(desc, count));
}
#endif

}  // namespace

std::string dnnl_version_text() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{} ({})", version.major, version.minor, version.patch,
                     runtime_name(version.cpu_runtime));
}

std::string instruction_set() {
  std::string name = dnnl_cpu_isa2str(static_cast<dnnl_cpu_isa_t>(dnnl::get_effective_cpu_isa()));
  if (name.starts_with("cpu_isa_")) name.erase(0, 8);
  return name;
}

void limit_instructions(InstructionLimit limit) {
  if (limit == InstructionLimit::none) return;
  const bool is_wide = limit == InstructionLimit::avx512;
  const char* const name = is_wide ? "avx512" : "avx2";
  const dnnl::cpu_isa set = is_wide ? dnnl::cpu_isa::avx512_core : dnnl::cpu_isa::avx2;
  if (dnnl::set_max_cpu_isa(set) != dnnl::status::success)
    fail(ErrorKind::usage,
         "--isa {}: oneDNN takes no limit any more, because something has computed before or the "
         "processor's AMX is switched off; start with DNNL_MAX_CPU_ISA={} in the environment as "
         "well",
         name, is_wide ? "AVX512_CORE" : "AVX2");
  if (!has_instructions(set))
    fail(ErrorKind::usage, "--isa {}: this processor has not more than {}; choose a lower set",
         name, instruction_set());
}

bool has_instructions(dnnl::cpu_isa set) {
  const auto bits = static_cast<unsigned>(set);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

bool sgemm_needs_alternate_stacks() {
  static const bool needed = [] {
    const dnnl_version_t& version = *dnnl_version();
    return std::tuple(version.major, version.minor, version.patch) < std::tuple(3, 11, 2);
  }();
  return needed;
}

const dnnl::engine& dnnl_engine() {
  // Never destroyed, because caches of threads that end late still hold its primitives.
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::primitive_attr primitive_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR > 3 || (DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR >= 4)
  attributes.set_deterministic(true);
#endif
  return attributes;
}

dnnl::memory::data_type element_type(const Desc& desc) {
#if DNNL_VERSION_MAJOR == 2
  return desc.data_type();
#else
  return desc.get_data_type();
#endif
}

Numbers axis_sizes(const Desc& desc) {
#if DNNL_VERSION_MAJOR == 2
  return numbers_at(desc.data.dims, desc.data.ndims);
#else
  return ask_numbers(desc, dnnl_query_dims, dnnl_query_ndims_s32);
#endif
}

BlockedOrder blocked_order(const Desc& desc) {
#if DNNL_VERSION_MAJOR == 2
  if (desc.data.format_kind != dnnl_blocked) return {};
  const dnnl_blocking_desc_t& order = desc.data.format_desc.blocking;
  return {numbers_at(order.strides, desc.data.ndims),
          numbers_at(order.inner_blks, order.inner_nblks),
          numbers_at(order.inner_idxs, order.inner_nblks)};
#else
  if (ask<dnnl_format_kind_t>(desc, dnnl_query_format_kind) != dnnl_blocked) return {};
  return {ask_numbers(desc, dnnl_query_strides, dnnl_query_ndims_s32),
          ask_numbers(desc, dnnl_query_inner_blks, dnnl_query_inner_nblks_s32),
          ask_numbers(desc, dnnl_query_inner_idxs, dnnl_query_inner_nblks_s32)};
#endif
}

void set_address(const dnnl::memory& memory, const void* address,
                 [[maybe_unused]] const dnnl::stream& stream) {
  // oneDNN takes non-const addresses, but writes only to results and padding.
  auto* const handle = const_cast<void*>(address);
#if DNNL_VERSION_MAJOR == 2
  memory.set_data_handle(handle, stream);
#else
  memory.set_data_handle(handle);
#endif
}

dnnl::matmul::primitive_desc describe_matmul(const Desc& a, const Desc& b, const Desc& bias,
                                             const Desc& c, const ProductEnd& end) {
  dnnl::primitive_attr attributes = primitive_attributes();
  dnnl::post_ops after;
  const auto append = [&](dnnl::algorithm algorithm, float alpha) {
#if DNNL_VERSION_MAJOR == 2
    after.append_eltwise(1.0f, algorithm, alpha, 0.0f);
#else
    after.append_eltwise(algorithm, alpha, 0.0f);
#endif
  };
  if (end.accumulate) after.append_sum(1.0f);
  if (end.relu) append(dnnl::algorithm::eltwise_relu, 0.0f);
  if (end.scale != 1) append(dnnl::algorithm::eltwise_linear, end.scale);
  attributes.set_post_ops(after);
#if DNNL_VERSION_MAJOR == 2
  return {dnnl::matmul::desc(a, b, bias, c), attributes, dnnl_engine()};
#else
  return {dnnl_engine(), a, b, bias, c, attributes};
#endif
}

dnnl::pooling_forward::primitive_desc describe_pooling(dnnl::prop_kind kind,
                                                       dnnl::algorithm algorithm, const Desc& x,
                                                       const Desc& y, const PoolingWindow& window) {
#if DNNL_VERSION_MAJOR == 2
  return describe<dnnl::pooling_forward>(kind, algorithm, x, y, window.strides, window.kernel,
                                         window.pad_begin, window.pad_end);
#else
  const dnnl::memory::dims gaps(window.kernel.size(), 0);
  return describe<dnnl::pooling_forward>(kind, algorithm, x, y, window.strides, window.kernel, gaps,
                                         window.pad_begin, window.pad_end);
#endif
}

dnnl::pooling_backward::primitive_desc describe_pooling_backward(
    const dnnl::pooling_forward::primitive_desc& forward, dnnl::algorithm algorithm, const Desc& x,
    const Desc& y, const PoolingWindow& window) {
#if DNNL_VERSION_MAJOR == 2
  return describe_backward<dnnl::pooling_backward>(forward, algorithm, x, y, window.strides,
                                                   window.kernel, window.pad_begin, window.pad_end);
#else
  const dnnl::memory::dims gaps(window.kernel.size(), 0);
  return describe_backward<dnnl::pooling_backward>(forward, algorithm, x, y, window.strides,
                                                   window.kernel, gaps, window.pad_begin,
                                                   window.pad_end);
#endif
}

dnnl::batch_normalization_forward::primitive_desc describe_batch_norm(
    dnnl::prop_kind kind, const Desc& x, float eps, dnnl::normalization_flags flags) {
#if DNNL_VERSION_MAJOR == 2
  return describe<dnnl::batch_normalization_forward>(kind, x, eps, flags);
#else
  return describe<dnnl::batch_normalization_forward>(kind, x, x, eps, flags);
#endif
}

dnnl::batch_normalization_backward::primitive_desc describe_batch_norm_backward(
    const dnnl::batch_normalization_forward::primitive_desc& forward, const Desc& x, float eps,
    dnnl::normalization_flags flags) {
  constexpr auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR == 2
  return describe_backward<dnnl::batch_normalization_backward>(forward, kind, x, x, eps, flags);
#else
  return describe_backward<dnnl::batch_normalization_backward>(forward, kind, x, x, x, eps, flags);
#endif
}

dnnl::lrn_forward::primitive_desc describe_response_norm(dnnl::prop_kind kind, const Desc& x,
                                                         const ChannelWindow& window) {
  constexpr auto algorithm = dnnl::algorithm::lrn_across_channels;
#if DNNL_VERSION_MAJOR == 2
  return describe<dnnl::lrn_forward>(kind, algorithm, x, window.window, window.alpha, window.beta,
                                     window.k);
#else
  return describe<dnnl::lrn_forward>(kind, algorithm, x, x, window.window, window.alpha,
                                     window.beta, window.k);
#endif
}

dnnl::lrn_backward::primitive_desc describe_response_norm_backward(
    const dnnl::lrn_forward::primitive_desc& forward, const Desc& x, const ChannelWindow& window) {
  constexpr auto algorithm = dnnl::algorithm::lrn_across_channels;
#if DNNL_VERSION_MAJOR == 2
  return describe_backward<dnnl::lrn_backward>(forward, algorithm, x, x, window.window,
                                               window.alpha, window.beta, window.k);
#else
  return describe_backward<dnnl::lrn_backward>(forward, algorithm, x, x, x, window.window,
                                               window.alpha, window.beta, window.k);
#endif
}

}  // namespace tasuki
