// Kernels with what the rules are to find (rules_test.py), each beside one that has it right.
#include <cstdint>

namespace tasuki::kernels {
namespace {

struct alignas(16) Four {
  float values[4];
};

// 64 sums, but so many threads that each has 32 registers.
__global__ void __launch_bounds__(1024, 2) spilling_kernel(float* sums, const float* x, int count) {
  float own[64] = {};
  for (int i = threadIdx.x; i < count; i += blockDim.x)
#pragma unroll
    for (int j = 0; j < 64; ++j) own[j] += x[64 * i + j] * x[64 * i + (j + 7) % 64];
#pragma unroll
  for (int j = 0; j < 64; ++j) sums[64 * threadIdx.x + j] = own[j];
}

// An array whose places are not known when it is compiled.
__global__ void indexed_kernel(int* counts, const int* places, int count) {
  int own[16] = {};
  for (int i = 0; i < count; ++i) ++own[places[i] & 15];
  for (int i = 0; i < 16; ++i) counts[16 * threadIdx.x + i] = own[i];
}

template <class Pack>
__global__ void twice_kernel(Pack* y, const Pack* x, int count) {
  constexpr int width = sizeof(Pack) / sizeof(float);
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    Pack pack = x[i];
    for (int j = 0; j < width; ++j) pack.values[j] *= 2;
    y[i] = pack;
  }
}

// Four floats that nothing says are aligned.
struct Loose {
  float values[4];
};

// One number, before the loop.
__global__ void pack_before_loop_kernel(float* y, const Four* x, int count) {
  const Four first = *x;
  for (int i = threadIdx.x; i < count; i += blockDim.x) y[i] = first.values[i % 4];
}

template <class Index>
__global__ void columns_kernel(float* y, const float* bias, Index count, Index columns) {
  for (Index i = threadIdx.x; i < count; i += blockDim.x) y[i] += bias[i % columns];
}

__global__ void division_before_loop_kernel(float* y, std::int64_t count, std::int64_t columns) {
  const std::int64_t rows = count / columns;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) y[i] = 0;
}

__global__ void sums_in_registers_kernel(float* sums, const float* x, int count) {
  __shared__ float shared[256];
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += x[i];
  shared[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sums = shared[0];
}

__global__ void sums_in_memory_kernel(float* sums, const float* x, int count) {
  __shared__ float shared[256];
  volatile float* const own = &shared[threadIdx.x];
  *own = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) *own = *own + x[i];
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 0; i < blockDim.x; ++i) *sums += shared[i];
}

// One load from shared memory for `columns` multiplications.
template <int columns>
__device__ void add_products(float* y, const float* x, int count) {
  __shared__ float shared[256];
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float sums[columns] = {}, factors[columns];
  for (int c = 0; c < columns; ++c) factors[c] = x[c];
#pragma unroll 1
  for (int i = 0; i < count; ++i)
#pragma unroll
    for (int c = 0; c < columns; ++c) sums[c] += shared[i] * factors[c];
  for (int c = 0; c < columns; ++c) y[c] = sums[c];
}
__global__ void single_products_kernel(float* y, const float* x, int count) {
  add_products<1>(y, x, count);
}
__global__ void fourfold_products_kernel(float* y, const float* x, int count) {
  add_products<4>(y, x, count);
}

}  // namespace

// What makes nvcc compile them.
void launch_all(float* y, const float* x, int* counts, const int* places, int count) {
  single_products_kernel<<<1, 256>>>(y, x, count);
  fourfold_products_kernel<<<1, 256>>>(y, x, count);
  spilling_kernel<<<1, 1024>>>(y, x, count);
  indexed_kernel<<<1, 32>>>(counts, places, count);
  twice_kernel<<<1, 32>>>(reinterpret_cast<Four*>(y), reinterpret_cast<const Four*>(x), count);
  twice_kernel<<<1, 32>>>(reinterpret_cast<Loose*>(y), reinterpret_cast<const Loose*>(x), count);
  pack_before_loop_kernel<<<1, 32>>>(y, reinterpret_cast<const Four*>(x), count);
  columns_kernel<std::int64_t><<<1, 32>>>(y, x, count, 3);
  columns_kernel<std::uint32_t><<<1, 32>>>(y, x, static_cast<std::uint32_t>(count), 3);
  division_before_loop_kernel<<<1, 32>>>(y, count, 3);
  sums_in_registers_kernel<<<1, 256>>>(y, x, count);
  sums_in_memory_kernel<<<1, 256>>>(y, x, count);
}

}  // namespace tasuki::kernels
