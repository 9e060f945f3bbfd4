// Chooses among algorithms of convolution on CPUs.
#pragma once

namespace tasuki {

// `fastest` times those that the processor offers, once per shape and pass in each thread. `direct`
// sums products in order, over blocks of 16 channels; in bfloat16 with AMX by tiles
// (cpu/tile_convolution.hpp), which `fastest` and `by_shape` take, too, where they are possible.
// `interleaved` sums in order over 16 images side by side (cpu/interleaved.hpp), which pays if
// channels do not fill their blocks; `fastest` and `by_shape` know columns for that in bfloat16
// (cpu/column_convolution.hpp). Winograd's F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308)
// needs fewer products and rounds about five times as much: 1e-6 relative; in bfloat16 it is
// F(2x4, 3x3) (cpu/rounded_winograd.hpp): 0.7 %. If the chosen one is not available, `direct` is
// used: Winograd is for filters of 3 x 3 with stride 1 and processors with AVX-512, in bfloat16 for
// numbers of channels that are multiples of 16 and processors with AVX512_BF16; `interleaved` for
// float32 without groups.
//
// `by_shape` takes one of them as the shapes say, without timing: `interleaved` or columns where
// channels leave much of their blocks empty (interleaving_may_pay, columns_may_pay), Winograd's for
// wider convolutions unless tiles are possible, otherwise `direct`. So the same convolution gives
// the same bits in every run, on any number of ranks.
enum class ConvAlgorithm { fastest, direct, winograd, interleaved, by_shape };

// For convolutions of the calling thread; `fastest` by default.
void set_conv_algorithm(ConvAlgorithm algorithm);
ConvAlgorithm conv_algorithm();

}  // namespace tasuki
