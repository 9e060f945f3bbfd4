// Chooses among algorithms of convolution on CPUs.
#pragma once

namespace tasuki {

// `direct` sums products in order, over blocks of 16 channels; in bfloat16 with AMX by tiles where
// they are possible (cpu/tile_convolution.hpp), which the others but `winograd` take then, too.
//
// `winograd` is F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308) in float32: it needs fewer products
// and rounds about five times as much, 1e-6 relative. In bfloat16 it is F(2x4, 3x3)
// (cpu/rounded_winograd.hpp): 0.7 %. It is for filters of 3 x 3 with stride 1 and processors with
// AVX-512, in bfloat16 for numbers of channels that are multiples of 16 and processors with
// AVX512_BF16.
//
// `interleaved` sums in order over 16 images side by side (cpu/interleaved.hpp), which pays if
// channels do not fill their blocks. It is for float32 without groups, and for images of bfloat16
// with up to four channels, which are widened.
//
// `fastest`, the default, times what the processor offers, once per shape and pass in each thread.
// `by_shape` chooses without timing: `interleaved`, or in bfloat16 columns
// (cpu/column_convolution.hpp), where channels leave much of their blocks empty
// (interleaving_may_pay, columns_may_pay), `winograd` for wider convolutions, otherwise `direct`.
// So the same convolution gives the same bits in every run, on any number of ranks.
//
// If the chosen one is not possible, `direct` is used.
enum class ConvAlgorithm { fastest, direct, winograd, interleaved, by_shape };

// For convolutions of the calling thread.
void set_conv_algorithm(ConvAlgorithm algorithm);
ConvAlgorithm conv_algorithm();

}  // namespace tasuki
