#include "tile_emulation.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "tensor/half.hpp"

namespace tasuki::testing {
namespace {

constexpr std::int64_t panel = TileKernels::panel, terms = TileKernels::terms, side = 2 * panel;
constexpr std::int64_t block_elements = TileKernels::block_elements;

thread_local bool is_configured = false;

void begin() {
  TASUKI_CHECK(!is_configured, "tiles were configured twice");
  is_configured = true;
}
void end() {
  TASUKI_CHECK(is_configured, "tiles were released before they were configured");
  is_configured = false;
}

template <bool is_left>
void pack(const TileOperand& from, std::int64_t count, std::int64_t sums, std::uint16_t* to) {
  const std::int64_t blocks = (sums + terms - 1) / terms;
  std::fill_n(to, (count + panel - 1) / panel * blocks * block_elements, std::uint16_t{0});
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < sums; ++k) {
      std::uint16_t* const block = to + (i / panel * blocks + k / terms) * block_elements;
      const std::int64_t row = i % panel, term = k % terms;
      block[is_left ? row * terms + term : term / 2 * 2 * panel + row * 2 + term % 2] =
          from.values[from.rows_are_sums ? i * from.step + k : k * from.step + i];
    }
}

// Adds a left tile, whose rows are `step` elements apart, times a right one to 16 x 16 sums.
void add_tiles(const std::uint16_t* left, std::int64_t step, const std::uint16_t* right,
               float* sums, std::int64_t sums_step) {
  TASUKI_CHECK(is_configured, "tiles were multiplied before they were configured");
  for (std::int64_t i = 0; i < panel; ++i)
    for (std::int64_t k = 0; k < terms; ++k)
      for (std::int64_t j = 0; j < panel; ++j)
        sums[i * sums_step + j] += float_from_bfloat16(left[i * step + k]) *
                                   float_from_bfloat16(right[k / 2 * 2 * panel + j * 2 + k % 2]);
}

void write(const TileBlock& block) {
  const TileResult& to = block.to;
  for (std::int64_t row = 0; row < to.rows; ++row)
    for (std::int64_t column = 0; column < to.columns; ++column) {
      auto* const rounded = static_cast<std::uint16_t*>(to.c) + row * to.step + column;
      auto* const exact = static_cast<float*>(to.c) + row * to.step + column;
      float value =
          block.sums[to.transposed ? column * side + row : row * side + column] * to.scale;
      if (to.bias != nullptr) value += to.bias[column];
      if (to.accumulate) value += to.rounds ? float_from_bfloat16(*rounded) : *exact;
      if (to.relu && value < 0) value = 0;
      if (to.rounds)
        *rounded = bfloat16_from_float(value);
      else
        *exact = value;
    }
}

void multiply(const std::uint16_t* left, bool two_left, const std::uint16_t* right, bool two_right,
              std::int64_t blocks, TileBlock& block, const TileBlock& before) {
  std::ranges::fill(block.sums, 0.0f);
  for (std::int64_t i = 0; i < (two_left ? 2 : 1); ++i)
    for (std::int64_t j = 0; j < (two_right ? 2 : 1); ++j)
      for (std::int64_t k = 0; k < blocks; ++k)
        add_tiles(left + (i * blocks + k) * block_elements, terms,
                  right + (j * blocks + k) * block_elements, block.sums + (i * side + j) * panel,
                  side);
  write(before);
}

void write_pixels(const TilePixels& of) {
  for (std::int64_t i = 0; i < of.count; ++i)
    for (std::int64_t c = 0; c < side && of.pixels[i] >= 0; ++c)
      of.blocks[c / panel][of.pixels[i] * panel + c % panel] =
          bfloat16_from_float(of.sums[i * side + c] + of.bias[c]);
}

void sum(const TileSums& of, const TilePixels& before) {
  for (std::int64_t row = 0; !of.adds && row < side; ++row)
    std::fill_n(of.sums + row * of.sums_step, side, 0.0f);
  for (std::int64_t block = 0; block < of.blocks; ++block)
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t j = 0; j < 2; ++j)
        add_tiles(of.left[i] + of.left_offsets[block], of.left_step,
                  of.right[j] + block * of.right_step,
                  of.sums + i * panel * of.sums_step + j * panel, of.sums_step);
  write_pixels(before);
}

}  // namespace

const TileKernels tile_emulation = {begin,    end,   pack<true>, pack<false>,
                                    multiply, write, sum,        write_pixels};

}  // namespace tasuki::testing
