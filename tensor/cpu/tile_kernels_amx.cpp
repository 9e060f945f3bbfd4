// Compiled for x86-64-v4 with AMX and AVX512_BF16, so it includes nothing that others share.
#include "tensor/cpu/tile_kernels.hpp"

#if defined(__AMX_BF16__)

// GCC 12's intrinsics start from undefined registers (GCC's bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace tasuki {
namespace {

constexpr std::int64_t panel = TileKernels::panel, terms = TileKernels::terms;
constexpr std::int64_t block_elements = TileKernels::block_elements;
constexpr std::int64_t side = 2 * panel;  // of a block of sums
constexpr std::int64_t tile_bytes = 64;   // of a row

void begin() {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
  } shapes;
  for (int tile = 0; tile < 8; ++tile) {
    shapes.bytes[tile] = tile_bytes;
    shapes.rows[tile] = panel;
  }
  asm volatile("" : : "m"(shapes));  // GCC 12's _tile_loadconfig() does not say that it reads all
  _tile_loadconfig(&shapes);
}

void end() {
  _tile_release();
}

// Of 16 x 16 numbers of 32 bits, in rows of `step` and `to_step` bytes.
inline void transpose(const void* from, std::int64_t step, void* to, std::int64_t to_step) {
  const char* const source = static_cast<const char*>(from);
  const auto quarter = [&](int row, int column) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + row * step + 16 * column));
  };
  for (int column = 0; column < 4; ++column) {
    __m512i rows[4];  // each with four rows' quarters, 4 rows apart
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm512_castsi128_si512(quarter(i, column));
      rows[i] = _mm512_inserti32x4(rows[i], quarter(i + 4, column), 1);
      rows[i] = _mm512_inserti32x4(rows[i], quarter(i + 8, column), 2);
      rows[i] = _mm512_inserti32x4(rows[i], quarter(i + 12, column), 3);
    }
    const __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const __m512i b = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i c = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    char* const out = static_cast<char*>(to) + 4 * column * to_step;
    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(a, c));
    _mm512_storeu_si512(out + to_step, _mm512_unpackhi_epi64(a, c));
    _mm512_storeu_si512(out + 2 * to_step, _mm512_unpacklo_epi64(b, d));
    _mm512_storeu_si512(out + 3 * to_step, _mm512_unpackhi_epi64(b, d));
  }
}

// 16 columns of 32 rows of memory as 16 rows of 16 pairs of elements.
inline void interleave(const std::uint16_t* from, std::int64_t step, std::uint16_t* to) {
  const auto row = [&](std::int64_t i) {
    return _mm512_cvtepu16_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * step)));
  };
  for (std::int64_t i = 0; i < terms; i += 2)
    _mm512_storeu_si512(to + i * panel, _mm512_or_si512(row(i), _mm512_slli_epi32(row(i + 1), 16)));
}

// The part of an operand that becomes one block, filled up with zeros if it ends in it.
class BlockSource {
 public:
  BlockSource(const TileOperand& from, std::int64_t begin, std::int64_t count, std::int64_t term,
              std::int64_t sums)
      : step_(from.step) {
    const std::int64_t width = count - begin < panel ? count - begin : panel;
    const std::int64_t length = sums - term < terms ? sums - term : terms;
    const std::int64_t rows = from.rows_are_sums ? width : length;
    const std::int64_t columns = from.rows_are_sums ? length : width;
    values_ =
        from.values + (from.rows_are_sums ? begin * from.step + term : term * from.step + begin);
    if (width == panel && length == terms) return;
    const std::int64_t whole = from.rows_are_sums ? terms : panel;
    for (std::int64_t i = 0; i < block_elements; ++i) copy_[i] = 0;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) copy_[i * whole + j] = values_[i * step_ + j];
    values_ = copy_;
    step_ = whole;
  }
  const std::uint16_t* values() const { return values_; }
  std::int64_t step() const { return step_; }

 private:
  const std::uint16_t* values_;
  std::int64_t step_;
  std::uint16_t copy_[block_elements];
};

template <bool is_left>
void pack_block(const BlockSource& from, bool rows_are_sums, std::uint16_t* to) {
  constexpr std::int64_t bytes = sizeof(std::uint16_t);
  if (rows_are_sums && is_left) {
    for (std::int64_t i = 0; i < panel; ++i)
      _mm512_storeu_si512(to + i * terms, _mm512_loadu_si512(from.values() + i * from.step()));
  } else if (rows_are_sums) {
    transpose(from.values(), from.step() * bytes, to, tile_bytes);
  } else if (is_left) {
    alignas(64) std::uint16_t pairs[block_elements];
    interleave(from.values(), from.step(), pairs);
    transpose(pairs, tile_bytes, to, tile_bytes);
  } else {
    interleave(from.values(), from.step(), to);
  }
}

// Along the rows of memory, which prefetching follows.
template <bool is_left>
void pack(const TileOperand& from, std::int64_t count, std::int64_t sums, std::uint16_t* to) {
  const std::int64_t blocks = (sums + terms - 1) / terms;
  const auto copy = [&](std::int64_t begin, std::int64_t term) {
    pack_block<is_left>(BlockSource(from, begin, count, term, sums), from.rows_are_sums,
                        to + (begin / panel * blocks + term / terms) * block_elements);
  };
  if (from.rows_are_sums)
    for (std::int64_t begin = 0; begin < count; begin += panel)
      for (std::int64_t term = 0; term < sums; term += terms) copy(begin, term);
  else
    for (std::int64_t term = 0; term < sums; term += terms)
      for (std::int64_t begin = 0; begin < count; begin += panel) copy(begin, term);
}

// A row of up to 32 sums in two registers.
struct Row {
  __m512 low, high;
};

class ResultRows {
 public:
  explicit ResultRows(const TileResult& to) : to_(to), scale_(_mm512_set1_ps(to.scale)) {
    const std::uint32_t columns = to.columns < side ? (1U << to.columns) - 1 : ~0U;
    all_ = columns;
    low_ = static_cast<__mmask16>(columns);
    high_ = static_cast<__mmask16>(columns >> panel);
    const __m512 zero = _mm512_setzero_ps();
    bias_ = {zero, zero};
    if (to.bias != nullptr)
      bias_ = {_mm512_maskz_loadu_ps(low_, to.bias), _mm512_maskz_loadu_ps(high_, to.bias + panel)};
  }

  void write(std::int64_t row, const float* sums) const {
    Row x = {_mm512_fmadd_ps(_mm512_load_ps(sums), scale_, bias_.low),
             _mm512_fmadd_ps(_mm512_load_ps(sums + panel), scale_, bias_.high)};
    if (to_.rounds)
      round(static_cast<std::uint16_t*>(to_.c) + row * to_.step, x);
    else
      store(static_cast<float*>(to_.c) + row * to_.step, x);
  }

 private:
  void clip(Row& x) const {
    // NaN stays: the second operand is the result if one is no number.
    const __m512 zero = _mm512_setzero_ps();
    if (to_.relu) x = {_mm512_max_ps(zero, x.low), _mm512_max_ps(zero, x.high)};
  }
  void store(float* c, Row x) const {
    if (to_.accumulate)
      x = {_mm512_add_ps(x.low, _mm512_maskz_loadu_ps(low_, c)),
           _mm512_add_ps(x.high, _mm512_maskz_loadu_ps(high_, c + panel))};
    clip(x);
    _mm512_mask_storeu_ps(c, low_, x.low);
    _mm512_mask_storeu_ps(c + panel, high_, x.high);
  }
  void round(std::uint16_t* c, Row x) const {
    if (to_.accumulate) {
      const __m512i before = _mm512_maskz_loadu_epi16(all_, c);
      const auto widened = [](__m256i half) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
      };
      x = {_mm512_add_ps(x.low, widened(_mm512_castsi512_si256(before))),
           _mm512_add_ps(x.high, widened(_mm512_extracti64x4_epi64(before, 1)))};
    }
    clip(x);
    const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x.high, x.low));
    _mm512_mask_storeu_epi16(c, all_, rounded);
  }

  const TileResult& to_;
  __m512 scale_;
  __mmask32 all_;
  __mmask16 low_, high_;
  Row bias_;
};

// Writes a block in steps of about the same work.
class BlockWriter {
 public:
  explicit BlockWriter(const TileBlock& block)
      : block_(block), rows_(block.to), turning_(block.to.transposed ? side : 0) {}

  std::int64_t steps() const { return turning_ + block_.to.rows; }
  void advance(std::int64_t steps) {
    const std::int64_t all = this->steps();
    const std::int64_t end = done_ + steps < all ? done_ + steps : all;
    for (; done_ < end; ++done_)
      if (done_ < turning_)
        turn(done_);
      else
        write(done_ - turning_);
  }

 private:
  // A quarter of the sums in the first of a quarter's steps.
  void turn(std::int64_t step) {
    const std::int64_t quarter = step / steps_of_quarter;
    const std::int64_t i = quarter / 2 * panel, j = quarter % 2 * panel;
    if (step % steps_of_quarter != 0 || i >= block_.to.columns || j >= block_.to.rows) return;
    constexpr std::int64_t bytes = side * sizeof(float);
    transpose(block_.sums + i * side + j, bytes, turned_ + j * side + i, bytes);
  }
  void write(std::int64_t row) const {
    rows_.write(row, (turning_ > 0 ? turned_ : block_.sums) + row * side);
  }

  static constexpr std::int64_t steps_of_quarter = side / 4;
  const TileBlock& block_;
  ResultRows rows_;
  std::int64_t turning_;  // steps
  std::int64_t done_ = 0;
  alignas(64) float turned_[side * side];
};

void write(const TileBlock& block) {
  BlockWriter writer(block);
  writer.advance(writer.steps());
}

// Has lines of the result on their way to the second cache while sums are computed: rows
// [begin, end) of the block.
inline void prefetch(const TileResult& to, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = to.rounds ? sizeof(std::uint16_t) : sizeof(float);
  for (std::int64_t row = begin; row < end; ++row) {
    const char* const first = static_cast<const char*>(to.c) + row * to.step * size;
    __builtin_prefetch(first, 0, 2);
    if (!to.rounds) __builtin_prefetch(first + tile_bytes, 0, 2);
  }
}

// Sums 0 to 3, of left panels 4 and 5 and right panels 6 and 7.
template <bool two_left, bool two_right>
void multiply_panels(const std::uint16_t* left, const std::uint16_t* right, std::int64_t blocks,
                     TileBlock& block, const TileBlock& before) {
  const TileResult& result = block.to;
  const std::int64_t size = blocks * block_elements;
  const std::int64_t share = (result.rows + blocks - 1) / blocks;
  BlockWriter writer(before);
  const std::int64_t steps = (writer.steps() + blocks - 1) / blocks;
  asm volatile("" : : : "memory");  // panels are in memory before the first tile is loaded
  _tile_zero(0);
  if constexpr (two_right) _tile_zero(1);
  if constexpr (two_left) _tile_zero(2);
  if constexpr (two_left && two_right) _tile_zero(3);
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < blocks; ++i, left += block_elements, right += block_elements) {
    const std::int64_t end = row + share < result.rows ? row + share : result.rows;
    prefetch(result, row, end);
    row = end;
    _tile_loadd(6, right, tile_bytes);
    _tile_loadd(4, left, tile_bytes);
    if constexpr (two_right) _tile_loadd(7, right + size, tile_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (two_left) _tile_loadd(5, left + size, tile_bytes);
    if constexpr (two_right) _tile_dpbf16ps(1, 4, 7);
    if constexpr (two_left) _tile_dpbf16ps(2, 5, 6);
    if constexpr (two_left && two_right) _tile_dpbf16ps(3, 5, 7);
    writer.advance(steps);
  }
  constexpr std::int64_t step = side * sizeof(float);
  float* const sums = block.sums;
  _tile_stored(0, sums, step);
  if constexpr (two_right) _tile_stored(1, sums + panel, step);
  if constexpr (two_left) _tile_stored(2, sums + panel * side, step);
  if constexpr (two_left && two_right) _tile_stored(3, sums + panel * side + panel, step);
}

void multiply(const std::uint16_t* left, bool two_left, const std::uint16_t* right, bool two_right,
              std::int64_t blocks, TileBlock& block, const TileBlock& before) {
  const auto kernel =
      two_left ? (two_right ? multiply_panels<true, true> : multiply_panels<true, false>)
               : (two_right ? multiply_panels<false, true> : multiply_panels<false, false>);
  kernel(left, right, blocks, block, before);
}

// Writes pixels in steps.
class PixelWriter {
 public:
  explicit PixelWriter(const TilePixels& of) : of_(of) {
    if (of.count == 0) return;
    low_ = _mm512_loadu_ps(of.bias);
    high_ = _mm512_loadu_ps(of.bias + panel);
  }

  void advance(std::int64_t positions) {
    const std::int64_t end = done_ + positions < of_.count ? done_ + positions : of_.count;
    for (; done_ < end; ++done_) {
      if (of_.pixels[done_] < 0) continue;
      const std::int64_t at = of_.pixels[done_] * panel;
      const float* const sums = of_.sums + done_ * side;
      round(of_.blocks[0] + at, _mm512_add_ps(_mm512_loadu_ps(sums), low_));
      round(of_.blocks[1] + at, _mm512_add_ps(_mm512_loadu_ps(sums + panel), high_));
    }
  }

 private:
  static void round(std::uint16_t* pixel, __m512 values) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pixel),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
  }

  const TilePixels& of_;
  std::int64_t done_ = 0;
  __m512 low_ = _mm512_setzero_ps(), high_ = _mm512_setzero_ps();
};

void write_pixels(const TilePixels& pixels) {
  PixelWriter(pixels).advance(pixels.count);
}

// Sums 0 to 3, of left tiles 4 and 5 and right tiles 6 and 7.
void sum(const TileSums& of, const TilePixels& before) {
  const std::int64_t step = of.sums_step * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t left_step = of.left_step * static_cast<std::int64_t>(sizeof(std::uint16_t));
  float* const lower = of.sums + panel * of.sums_step;
  asm volatile("" : : : "memory");  // operands are in memory before the first tile is loaded
  if (of.adds) {
    _tile_loadd(0, of.sums, step);
    _tile_loadd(1, of.sums + panel, step);
    _tile_loadd(2, lower, step);
    _tile_loadd(3, lower + panel, step);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  PixelWriter writer(before);
  const std::int64_t positions = (before.count + of.blocks - 1) / of.blocks;
  const std::uint16_t *first = of.right[0], *second = of.right[1];
  for (std::int64_t i = 0; i < of.blocks; ++i, first += of.right_step, second += of.right_step) {
    const std::int64_t offset = of.left_offsets[i];
    _tile_loadd(6, first, tile_bytes);
    _tile_loadd(4, of.left[0] + offset, left_step);
    _tile_loadd(7, second, tile_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, of.left[1] + offset, left_step);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    writer.advance(positions);
  }
  _tile_stored(0, of.sums, step);
  _tile_stored(1, of.sums + panel, step);
  _tile_stored(2, lower, step);
  _tile_stored(3, lower + panel, step);
}

constexpr TileKernels kernels = {begin,    end,   pack<true>, pack<false>,
                                 multiply, write, sum,        write_pixels};

}  // namespace

const TileKernels* const tile_kernels_amx = &kernels;

}  // namespace tasuki

#else

namespace tasuki {

const TileKernels* const tile_kernels_amx = nullptr;

}  // namespace tasuki

#endif
