// The innermost loops of convolutions over interleaved images (interleaved.hpp), compiled for
// several processors. Addresses and steps count floats; a line is 16 floats, a pixel of 16 images.
#pragma once

#include <cstdint>

namespace tasuki {

inline constexpr std::int64_t interleave = 16;  // images

// A part of a sum over a window: a line, from the start of its channel on, times weights.
struct InterleavedTap {
  std::int32_t line, weights;
};

// One pixel of a few output channels (rows), for one block of 16 images or two:
//   y[block][row] = bias[row] + sum over taps, channels of w[tap][channel][row]
//   x[block][channel][tap]
struct InterleavedSum {
  const float* x = nullptr;
  std::int64_t x_block = 0, x_channel = 0;  // steps from block to block, from channel to channel
  std::int64_t channels = 0;
  const InterleavedTap* taps = nullptr;
  std::int64_t tap_count = 0;
  const float* weights = nullptr;  // those of the rows lie side by side
  std::int64_t weights_channel = 0;
  const float* bias = nullptr;  // may be none
  float* y = nullptr;
  std::int64_t y_block = 0, y_row = 0;
};

// Part of the gradient of a few weights, as 16 numbers each that the caller adds up:
//   sums[row][tap] += sum over i, j of dy[row][i][j] x[i * x_down + j * x_right + tap]
struct InterleavedGradient {
  const float* x;
  std::int64_t x_down, x_right;
  const std::int64_t* taps;
  const float* dy;
  std::int64_t dy_row;
  std::int64_t height, width;
  float* sums;
  std::int64_t sums_row;
};

struct InterleavedKernels {
  // Upper limits: rows of a sum, blocks of a sum, and rows and taps of a gradient.
  std::int64_t sum_rows, sum_blocks, gradient_rows, gradient_taps;
  void (*sum)(const InterleavedSum&, std::int64_t rows, std::int64_t blocks);
  void (*gradient)(const InterleavedGradient&, std::int64_t rows, std::int64_t taps);
  // The same for one block of which only the first 8 images exist. half_sum() sets the other half
  // of each line of y to zero; half_gradient() does not change the other half of its sums.
  void (*half_sum)(const InterleavedSum&, std::int64_t rows);
  void (*half_gradient)(const InterleavedGradient&, std::int64_t rows, std::int64_t taps);
};

extern const InterleavedKernels interleaved_kernels_baseline, interleaved_kernels_avx2,
    interleaved_kernels_avx512;
// The best ones for this processor.
const InterleavedKernels& interleaved_kernels();

}  // namespace tasuki
