#include "vectors.hpp"

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::testing {
namespace {

__global__ void copy_pack_kernel(float* to, const float* from) {
  kernels::store_pack(to, 0, kernels::load_pack(from, 0));
}

template <int V, class T>
__global__ void copy_values_kernel(T* to, const T* from) {
  kernels::store<V>(to, 0, kernels::load<V>(from, 0));
}

}  // namespace

void copy_vector(const Launch& launch, Vector vector, void* to, const void* from) {
  switch (vector) {
    case Vector::pack:
      copy_pack_kernel<<<1, 1, 0, launch.stream>>>(static_cast<float*>(to),
                                                   static_cast<const float*>(from));
      break;
    case Vector::four_halves:
      copy_values_kernel<4>
          <<<1, 1, 0, launch.stream>>>(static_cast<__half*>(to), static_cast<const __half*>(from));
      break;
    case Vector::two_floats:
      copy_values_kernel<2>
          <<<1, 1, 0, launch.stream>>>(static_cast<float*>(to), static_cast<const float*>(from));
      break;
  }
}

}  // namespace tasuki::testing
