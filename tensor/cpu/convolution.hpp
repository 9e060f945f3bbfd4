// The choice among oneDNN's convolution algorithms.
#pragma once

namespace tasuki {

// `fastest` times those that the processor offers, once per shape and pass in each thread. Direct
// sums products as they come; Winograd's F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308) needs fewer
// and rounds about five times as much: 1e-6 relative. Where Winograd cannot be had (other kernels
// than 3 x 3 with stride 1, processors without AVX-512) `winograd` falls back to direct.
enum class ConvAlgorithm { fastest, direct, winograd };

// For convolutions of the calling thread; `fastest` at first.
void set_conv_algorithm(ConvAlgorithm algorithm);
ConvAlgorithm conv_algorithm();

}  // namespace tasuki
