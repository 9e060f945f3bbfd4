#include "tensor/cpu/rounded_product.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/activation_kernels.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/matrix_product.hpp"
#include "tensor/cpu/tile_product.hpp"

namespace tasuki {
namespace {

#if defined(__x86_64__)
// Some hypervisors report AMX but not the leaf of CPUID that describes its tiles. oneDNN then
// configures none and dies of SIGILL in its first product, so AMX is disabled there; at load,
// because oneDNN accepts no limit later, which limit_instructions() then says. DNNL_MAX_CPU_ISA
// wins.
[[maybe_unused]] const bool limited = [] {
  constexpr unsigned features = 7, amx_tile = 1U << 24, tile_information = 0x1d;
  unsigned palettes = 0, a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(features, 0, &a, &b, &c, &d) == 0 || (d & amx_tile) == 0) return false;
  if (__get_cpuid_count(tile_information, 0, &palettes, &b, &c, &d) != 0 && palettes > 0)
    return false;
  if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return false;
  return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16) == dnnl::status::success;
}();
#endif

// VDPBF16PS has twice the rate of float32's FMA on AMD's processors, and half of it on Intel's,
// where a transformer's step took 1.6 times as long as in float32.
bool has_fast_pairs() {
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel");
#else
  return true;
#endif
}

std::string text_of(const RoundedMatrix& a, const RoundedMatrix& b) {
  return fmt::format("a product of {} x {}x{} and {} x {}x{} in {}", a.count(), a.rows(),
                     a.columns(), b.count(), b.rows(), b.columns(), name_of(a.values.dtype()));
}

dnnl::memory::desc order_of(const RoundedMatrix& m) {
  const std::int64_t width = m.transposed ? m.rows() : m.columns();
  dnnl::memory::dims sizes = {m.rows(), m.columns()}, strides = {width, 1};
  if (m.transposed) std::swap(strides[0], strides[1]);
  if (m.rank() == 3) {
    sizes.insert(sizes.begin(), m.count());
    strides.insert(strides.begin(), m.rows() * m.columns());
  }
  return {sizes, dnnl::memory::data_type::bf16, strides};
}

// Rows [begin, end) of single matrices in memory.
RoundedMatrix rows_of(const RoundedMatrix& m, std::int64_t begin, std::int64_t end) {
  return {m.values.slice(begin, end), m.transposed};
}

DnnlOperation operation_of(const dnnl::matmul::primitive_desc& pd) {
  return {dnnl::matmul(pd),
          {{DNNL_ARG_SRC, pd.src_desc()},
           {DNNL_ARG_WEIGHTS, pd.weights_desc()},
           {DNNL_ARG_BIAS, pd.bias_desc()},
           {DNNL_ARG_DST, pd.dst_desc()},
           {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}}};
}

void by_matmul(const RoundedMatrix& a, const RoundedMatrix& b, const Tensor& c,
               const RoundedProductOptions& options) {
  // oneDNN may have threads compute parts of longer sums if a is transposed.
  constexpr std::int64_t most_terms = 1024;
  const std::int64_t terms = a.columns();
  if (a.transposed && !b.transposed && a.rank() == 2 && c.dtype() == DType::float32 &&
      terms > most_terms) {
    for (std::int64_t begin = 0; begin < terms; begin += most_terms) {
      const std::int64_t end = std::min(begin + most_terms, terms);
      const bool is_first = begin == 0;
      const RoundedProductOptions part = {.bias = is_first ? options.bias : Tensor(),
                                          .relu = options.relu && end == terms,
                                          .accumulate = options.accumulate || !is_first};
      by_matmul(rows_of(a, begin, end), rows_of(b, begin, end), c, part);
    }
    return;
  }
  OperationKey key(OperationKey::rounded_product);
  key.add(c.shape()).add(a.columns()).add(a.transposed).add(b.transposed);
  key.add(static_cast<std::int64_t>(c.dtype())).add(options.bias.defined());
  key.add(options.relu).add(options.accumulate);
  const auto operation = cached_operation(key, [&] {
    const dnnl::memory::desc bias =
        options.bias ? plain_desc({1, b.columns()}) : dnnl::memory::desc();
    const auto pd =
        describe_matmul(order_of(a), order_of(b), bias, plain_desc(c.shape(), c.dtype()),
                        {.accumulate = options.accumulate, .relu = options.relu});
    return operation_of(pd);
  });
  operation->run({{DNNL_ARG_SRC, a.values.raw()},
                  {DNNL_ARG_WEIGHTS, b.values.raw()},
                  {DNNL_ARG_BIAS, options.bias.raw()},
                  {DNNL_ARG_DST, c.raw()}});
}

RoundedBlock block_of(const RoundedMatrix& m, std::int64_t index) {
  return {static_cast<const std::uint16_t*>(m.values.raw()) + index * m.rows() * m.columns(),
          m.transposed ? m.rows() : m.columns(), m.transposed};
}

void by_tiles(const RoundedMatrix& a, const RoundedMatrix& b, const Tensor& c,
              const RoundedProductOptions& options) {
  const auto multiply_one = [&](std::int64_t index) {
    const std::int64_t m = a.rows(), n = b.columns();
    const auto offset = static_cast<std::size_t>(index * m * n) * size_of(c.dtype());
    multiply_tiles({.m = m,
                    .n = n,
                    .k = a.columns(),
                    .a = block_of(a, index),
                    .b = block_of(b, index),
                    .c = static_cast<char*>(c.raw()) + offset,
                    .c_step = n,
                    .rounds = c.dtype() != DType::float32,
                    .bias = options.bias ? options.bias.data<float>() : nullptr,
                    .relu = options.relu,
                    .accumulate = options.accumulate});
  };
  // Threads share the products, or each of a few.
  if (a.count() < cpu_threads())
    for (std::int64_t i = 0; i < a.count(); ++i) multiply_one(i);
  else
    parallel_for(a.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) multiply_one(i);
    });
}

void by_sgemm(const RoundedMatrix& a, const RoundedMatrix& b, const Tensor& c,
              const RoundedProductOptions& options) {
  const Tensor left = in_float32(a.values), right = in_float32(b.values);
  const bool is_direct = c.dtype() == DType::float32;
  const Tensor sums = is_direct ? c : options.accumulate ? in_float32(c) : Tensor::empty(c.shape());
  if (options.bias && options.accumulate)
    parallel_for(a.rows(), elementwise_grain / b.columns() + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     accumulate_kernel(sums.data<float>() + i * b.columns(),
                                       options.bias.data<float>(), 1, b.columns());
                 });
  else if (options.bias)
    repeat_row_kernel(options.bias.data<float>(), sums.data<float>(), a.rows(), b.columns());
  const std::int64_t m = a.rows(), n = b.columns(), k = a.columns();
  multiply_batch(
      {a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, left.data<float>(),
       right.data<float>(), sums.data<float>(), options.bias || options.accumulate ? 1.0f : 0.0f},
      a.count(), m * k, k * n, m * n);
  if (options.relu) relu_kernel(sums.data<float>(), sums.data<float>(), sums.count());
  if (!is_direct) c.copy_from(sums);
}

}  // namespace

bool has_bfloat16_products() {
  static const bool has_pairs =
      has_instructions(dnnl::cpu_isa::avx512_core_bf16) && has_fast_pairs();
  return has_tiles() || has_pairs;
}

void multiply_rounded(const RoundedMatrix& a, const RoundedMatrix& b, const Tensor& c,
                      const RoundedProductOptions& options) {
  const DType type = a.values.dtype();
  TASUKI_CHECK(has_16_bits(type) && b.values.dtype() == type && a.values.is_plain() &&
                   b.values.is_plain() && a.columns() == b.rows() && a.rank() == b.rank() &&
                   a.count() == b.count() && c.is_plain() &&
                   c.shape() == (a.rank() == 3 ? Shape{a.count(), a.rows(), b.columns()}
                                               : Shape{a.rows(), b.columns()}),
               "{}: the result has {}", text_of(a, b), c.shape().text());
  TASUKI_CHECK(c.dtype() == DType::float32 || c.dtype() == type, "{}: a result of {}",
               text_of(a, b), name_of(c.dtype()));
  TASUKI_CHECK(!options.bias || (a.rank() == 2 && options.bias.shape() == Shape{b.columns()} &&
                                 options.bias.dtype() == DType::float32),
               "{}: a bias of {}", text_of(a, b), options.bias.shape().text());
  with_dnnl([&] { return text_of(a, b); },
            [&] {
              const bool is_native_type = is_native(type);
              const auto multiply = is_native_type && has_tiles() ? by_tiles
                                    : is_native_type              ? by_matmul
                                                                  : by_sgemm;
              multiply(a, b, c, options);
            });
}

void multiply_rounded_block(std::int64_t m, std::int64_t n, std::int64_t k, const RoundedBlock& a,
                            const RoundedBlock& b, float* c, std::int64_t c_step, float scale,
                            bool accumulate) {
  const auto what = [&] { return fmt::format("a product of {}x{} and {}x{}", m, k, k, n); };
  TASUKI_CHECK(scale == 1 || !accumulate, "{}: scaled and accumulated", what());
  if (has_tiles()) {
    multiply_tiles({.m = m,
                    .n = n,
                    .k = k,
                    .a = a,
                    .b = b,
                    .c = c,
                    .c_step = c_step,
                    .scale = scale,
                    .accumulate = accumulate});
    return;
  }
  with_dnnl(what, [&] {
    OperationKey key(OperationKey::rounded_block);
    for (const std::int64_t number : {m, n, k, a.step, b.step, c_step}) key.add(number);
    key.add(a.transposed).add(b.transposed).add(std::bit_cast<std::int32_t>(scale));
    key.add(accumulate);
    const auto operation = cached_operation(key, [&] {
      using Type = dnnl::memory::data_type;
      const auto order = [](std::int64_t rows, std::int64_t columns, const RoundedBlock& block) {
        const dnnl::memory::dims strides = {block.transposed ? 1 : block.step,
                                            block.transposed ? block.step : 1};
        return dnnl::memory::desc({rows, columns}, Type::bf16, strides);
      };
      const dnnl::memory::desc result({m, n}, Type::f32, dnnl::memory::dims{c_step, 1});
      return operation_of(describe_matmul(order(m, k, a), order(k, n, b), {}, result,
                                          {.accumulate = accumulate, .scale = scale}));
    });
    operation->run({{DNNL_ARG_SRC, a.values}, {DNNL_ARG_WEIGHTS, b.values}, {DNNL_ARG_DST, c}});
  });
}

}  // namespace tasuki
