// Chooses among algorithms of convolution on CPUs.
#pragma once

namespace tasuki {

// `fastest` times those that the processor offers, once per shape and pass in each thread. `direct`
// sums products in order, over blocks of 16 channels; `interleaved` does so over 16 images side by
// side (cpu/interleaved.hpp), which pays if channels do not fill their blocks. Winograd's F(4x4,
// 3x3) (Lavin and Gray, arXiv 1509.09308) needs fewer products and rounds about five times as much:
// 1e-6 relative. `direct_bfloat16` is `direct` with factors rounded to bfloat16, whatever
// set_cpu_product_type() says. If the chosen one is not available (Winograd: kernels other than
// 3 x 3 with stride 1, processors without AVX-512; interleaved: groups; bfloat16: processors
// without AVX-512, gradients of weights that meet nothing but padding), `direct` is used.
enum class ConvAlgorithm { fastest, direct, direct_bfloat16, winograd, interleaved };

// For convolutions of the calling thread; `fastest` by default.
void set_conv_algorithm(ConvAlgorithm algorithm);
ConvAlgorithm conv_algorithm();

}  // namespace tasuki
