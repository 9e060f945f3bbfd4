// Attention of 16-bit values by cuDNN's fused kernels, the fastest on Hopper. Asked at run time:
// where cuDNN does not support a problem, our kernels (attention_kernels.hpp) take it.
#pragma once

#include "tensor/cuda/attention_kernels.hpp"
#include "tensor/cuda/context.hpp"

namespace tasuki {

// Computes arrays.y and returns each query's logarithm of the sum of exponentials, float32, N x
// heads x queries. Undefined: cuDNN does not support this, and nothing was done. The environment
// variable TASUKI_GPU_ATTENTION=own makes that so for everything, to compare.
//
// A plan is compiled for each shape and direction, once per thread, in about a third of a second. A
// thread asks for a hundred shapes of each direction; further ones, and single queries, are left to
// our kernels.
Tensor cudnn_attention(CudaContext& context, const kernels::AttentionArrays& arrays);

// Computes the gradients; false: cuDNN does not support this, and nothing was done. A query's
// gradient is added up in no fixed order: last bits may differ from run to run.
bool cudnn_attention_gradient(CudaContext& context, const kernels::AttentionArrays& arrays,
                              const Tensor& logarithms, const kernels::AttentionGradients& to);

}  // namespace tasuki
