#include "tensor/cpu/tile_product.hpp"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "core/log.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/half.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t panel = TileKernels::panel, strip = 2 * panel;
// Packed right panels, and left ones that are kept for all parts of the right operand, in elements:
// together 1.5 MiB of a second cache of 2 MiB.
constexpr std::int64_t most_packed = std::int64_t{1} << 18, most_kept = std::int64_t{1} << 19;
// Longer sums are cut, because strips of both operands share the first cache. Results that are
// rounded would need an array of float32 for that, so their sums may be longer.
constexpr std::int64_t most_terms = 1024, most_terms_rounded = 2048;

bool may_use_tiles() {
#if defined(__x86_64__)
  constexpr int request = 0x1023, tile_data = 18;  // arch_prctl(2): ARCH_REQ_XCOMP_PERM
  const auto ask = [] { return ::syscall(SYS_arch_prctl, request, tile_data) == 0; };
  if (has_instructions(dnnl::cpu_isa::avx512_core_amx)) return ask();
  // Without the permission, oneDNN uses the next lower set and says nothing.
  const bool is_limited = std::getenv("DNNL_MAX_CPU_ISA") != nullptr ||
                          std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr ||
                          !has_instructions(dnnl::cpu_isa::avx512_core_bf16);
  if (!is_limited && !ask() && errno == ENOSPC)
    log_warning(
        "an alternate signal stack of a thread is too small for the registers of AMX, so products "
        "of bfloat16 are slower; give it getauxval(AT_MINSIGSTKSZ) bytes and what its handlers "
        "need");
#endif
  return false;
}

const TileKernels*& kernels_here() {
  static const TileKernels* kernels =
      tile_kernels_amx != nullptr && may_use_tiles() ? tile_kernels_amx : nullptr;
  return kernels;
}

// One of the operands, as panels see it.
struct Side {
  TileOperand from;
  std::int64_t count;

  TileOperand starting_at(std::int64_t i) const {
    return {from.values + (from.rows_are_sums ? i * from.step : i), from.step, from.rows_are_sums};
  }
};

// In units of a block's copy. Measured: a transposition takes about three times as long.
std::int64_t packing_cost(const Side& left, const Side& right) {
  constexpr std::int64_t transposed = 3;
  return left.count * (left.from.rows_are_sums ? 1 : 1 + transposed) +
         right.count * (right.from.rows_are_sums ? transposed : 1);
}

// All of it in the calling thread.
void multiply_here(const TileProduct& product) {
  const TileKernels& kernels = *tile_kernels();
  const RoundedBlock &a = product.a, &b = product.b;
  const Side rows = {{a.values, a.step, !a.transposed}, product.m};
  const Side columns = {{b.values, b.step, b.transposed}, product.n};
  // Turning a block of sums costs as much as transposing a block of an operand, twice.
  const std::int64_t turning = product.m * product.n / product.k / 2;
  const bool is_turned = packing_cost(columns, rows) + turning < packing_cost(rows, columns);
  const Side& left = is_turned ? columns : rows;
  const Side& right = is_turned ? rows : columns;

  const std::int64_t blocks = (product.k + TileKernels::terms - 1) / TileKernels::terms;
  const std::int64_t panel_size = blocks * TileKernels::block_elements;
  const std::int64_t part =
      std::min(std::max(most_packed / panel_size * panel / strip, std::int64_t{1}) * strip,
               (right.count + strip - 1) / strip * strip);
  const std::int64_t left_size = (left.count + strip - 1) / strip * 2 * panel_size;
  const bool is_kept = part < right.count && left_size <= most_kept;
  const Tensor packed_left = Tensor::empty({is_kept ? left_size : 2 * panel_size}, DType::bfloat16);
  const Tensor packed_right = Tensor::empty({part / panel * panel_size}, DType::bfloat16);
  auto* const lefts = static_cast<std::uint16_t*>(packed_left.raw());
  auto* const rights = static_cast<std::uint16_t*>(packed_right.raw());

  TileBlock pair[2];
  TileBlock *block = &pair[0], *before = &pair[1];
  TileResult to = {.c = nullptr,
                   .step = product.c_step,
                   .rows = 0,
                   .columns = 0,
                   .rounds = product.rounds,
                   .transposed = is_turned,
                   .accumulate = product.accumulate,
                   .relu = product.relu,
                   .scale = product.scale,
                   .bias = nullptr};
  const auto place = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * product.c_step + column;
    to.c = product.rounds ? static_cast<void*>(static_cast<std::uint16_t*>(product.c) + at)
                          : static_cast<void*>(static_cast<float*>(product.c) + at);
    to.rows = std::min(strip, product.m - row);
    to.columns = std::min(strip, product.n - column);
    to.bias = product.bias == nullptr ? nullptr : product.bias + column;
  };
  before->to = to;
  kernels.begin();
  for (std::int64_t begin = 0; begin < right.count; begin += part) {
    const std::int64_t count = std::min(part, right.count - begin);
    kernels.pack_right(right.starting_at(begin), count, product.k, rights);
    for (std::int64_t i = 0; i < left.count; i += strip) {
      const std::int64_t height = std::min(strip, left.count - i);
      std::uint16_t* const own = is_kept ? lefts + i / panel * panel_size : lefts;
      if (!is_kept || begin == 0) kernels.pack_left(left.starting_at(i), height, product.k, own);
      for (std::int64_t j = 0; j < count; j += strip) {
        is_turned ? place(begin + j, i) : place(i, begin + j);
        block->to = to;
        kernels.multiply(own, height > panel, rights + j / panel * panel_size, count - j > panel,
                         blocks, *block, *before);
        std::swap(block, before);
      }
    }
  }
  kernels.write(*before);
  kernels.end();
}

// Rows [begin, end) of c, or its columns.
TileProduct part_of(const TileProduct& whole, bool of_rows, std::int64_t begin, std::int64_t end) {
  TileProduct part = whole;
  RoundedBlock& operand = of_rows ? part.a : part.b;
  const bool along_memory = operand.transposed == of_rows;
  operand.values += along_memory ? begin : begin * operand.step;
  (of_rows ? part.m : part.n) = end - begin;
  const std::int64_t offset = of_rows ? begin * whole.c_step : begin;
  part.c = whole.rounds ? static_cast<void*>(static_cast<std::uint16_t*>(whole.c) + offset)
                        : static_cast<void*>(static_cast<float*>(whole.c) + offset);
  if (!of_rows && whole.bias != nullptr) part.bias += begin;
  return part;
}

// Terms [begin, end) of the sums, which c gets or, after the first ones, adds.
TileProduct terms_of(const TileProduct& whole, std::int64_t begin, std::int64_t end) {
  TileProduct part = whole;
  part.k = end - begin;
  part.a.values += whole.a.transposed ? begin * whole.a.step : begin;
  part.b.values += whole.b.transposed ? begin : begin * whole.b.step;
  part.accumulate = whole.accumulate || begin > 0;
  if (begin > 0) part.bias = nullptr;
  part.relu = whole.relu && end == whole.k;
  return part;
}

// Adds up the parts of long sums in float32, to be rounded once.
void multiply_long(const TileProduct& product) {
  const HalfFormat format = half_format(DType::bfloat16);
  const Tensor sums = Tensor::empty({product.m, product.n});
  const auto for_rows = [&](const auto& body) {
    parallel_for(product.m, elementwise_grain / product.n + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     body(static_cast<std::uint16_t*>(product.c) + i * product.c_step,
                          sums.data<float>() + i * product.n);
                 });
  };
  if (product.accumulate)
    for_rows([&](const std::uint16_t* c, float* sum) { format.widen(sum, c, product.n); });
  TileProduct exact = product;
  exact.c = sums.raw();
  exact.c_step = product.n;
  exact.rounds = false;
  multiply_tiles(exact);
  for_rows([&](std::uint16_t* c, const float* sum) { format.narrow(c, sum, product.n); });
}

}  // namespace

const TileKernels* tile_kernels() {
  return kernels_here();
}

void set_tile_kernels(const TileKernels* kernels) {
  kernels_here() = kernels;
}

void multiply_tiles(const TileProduct& product) {
  if (product.rounds && product.k > most_terms_rounded) {
    multiply_long(product);
    return;
  }
  const bool of_rows = product.m >= product.n;
  const std::int64_t size = of_rows ? product.m : product.n;
  // A thread's part is at least a few tens of microseconds.
  constexpr std::int64_t least_work = std::int64_t{1} << 24;
  const std::int64_t work_of_strip = strip * (of_rows ? product.n : product.m) * product.k;
  parallel_for((size + strip - 1) / strip, least_work / work_of_strip + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 const TileProduct part =
                     part_of(product, of_rows, begin * strip, std::min(end * strip, size));
                 const std::int64_t most = part.rounds ? most_terms_rounded : most_terms;
                 for (std::int64_t term = 0; term < part.k; term += most)
                   multiply_here(terms_of(part, term, std::min(term + most, part.k)));
               });
}

}  // namespace tasuki
