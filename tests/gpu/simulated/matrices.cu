#include "matrices.hpp"
#include "tensor/cuda/tensor_core_instructions.cuh"

namespace tasuki::testing {
namespace {

__global__ void load_rows_kernel(bool transposed, std::size_t offset, std::uint32_t* to) {
  alignas(16) __shared__ std::uint16_t shared[8 * 32 + 8];
  std::uint16_t* const row = shared + offset / 2 + 8 * threadIdx.x;
  for (unsigned i = 0; i < 8; ++i) row[i] = static_cast<std::uint16_t>(8 * threadIdx.x + i);
  __syncthreads();
  std::uint32_t words[4];
  if (transposed)
    kernels::load_transposed(words, row);
  else
    kernels::load_matrices(words, row);
  for (unsigned i = 0; i < 4; ++i) to[4 * threadIdx.x + i] = words[i];
}

}  // namespace

void load_rows(const Launch& launch, bool transposed, std::size_t offset, std::uint32_t* to) {
  load_rows_kernel<<<1, 32, 0, launch.stream>>>(transposed, offset, to);
}

}  // namespace tasuki::testing
