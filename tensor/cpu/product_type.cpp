// The type of the factors of matrix products.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>

#include "core/error.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki {
namespace {

thread_local DType chosen_type = DType::float32;

#if defined(__x86_64__)
// Some hypervisors report AMX but not the leaf of CPUID that describes its tiles. oneDNN then
// configures none and dies of SIGILL in its first product, so AMX is disabled there; at load,
// because oneDNN accepts no limit later. DNNL_MAX_CPU_ISA wins.
[[maybe_unused]] const bool limited = [] {
  constexpr unsigned tile_information = 0x1d;
  unsigned palettes = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(tile_information, 0, &palettes, &b, &c, &d) != 0 && palettes > 0)
    return false;
  if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return false;
  return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16) == dnnl::status::success;
}();
#endif

}  // namespace

void set_cpu_product_type(DType type) {
  if (type != DType::float32 && type != DType::bfloat16)
    fail_everywhere(ErrorKind::config, "matrix products on the CPU are float32 or bfloat16, not {}",
                    name_of(type));
  // oneDNN also computes bfloat16 on processors without instructions for it, but slowly.
  if (type == DType::bfloat16 && !has_instructions(dnnl::cpu_isa::avx512_core_bf16))
    fail(ErrorKind::unavailable,
         "bfloat16 products need a processor with AVX512_BF16, which this one lacks; use float32");
  chosen_type = type;
}

DType cpu_product_type() {
  return chosen_type;
}

}  // namespace tasuki
