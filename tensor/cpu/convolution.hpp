// The choice among algorithms of convolution.
#pragma once

namespace tasuki {

// `fastest` times those that the processor offers, once per shape and pass in each thread. Direct
// sums products as they come, over blocks of 16 channels; `interleaved` does so over 16 images side
// by side (interleaved.hpp), which pays where channels do not fill their blocks. Winograd's F(4x4,
// 3x3) (Lavin and Gray, arXiv 1509.09308) needs fewer products and rounds about five times as much:
// 1e-6 relative. Where one cannot be had (Winograd: other kernels than 3 x 3 with stride 1,
// processors without AVX-512; interleaved: groups) it falls back to direct.
enum class ConvAlgorithm { fastest, direct, winograd, interleaved };

// For convolutions of the calling thread; `fastest` at first.
void set_conv_algorithm(ConvAlgorithm algorithm);
ConvAlgorithm conv_algorithm();

}  // namespace tasuki
