// Where kernels find elements of arrays that are walked with strides.
#pragma once

#include "tensor/cuda/kernel_support.cuh"
#include "tensor/strided_loop.hpp"

namespace tasuki::kernels {

// A loop whose positions are numbers of type Index (index.cuh).
// Kernels take it as const __grid_constant__: without that, numbering its axes at run time makes
// each thread copy it to local memory.
template <int arrays, class Index>
struct DeviceLoop {
  int rank;
  Index sizes[Shape::max_rank];
  Index strides[arrays][Shape::max_rank];

  explicit DeviceLoop(const StridedLoop<arrays>& loop) : rank(loop.rank) {
    for (int axis = 0; axis < rank; ++axis) {
      sizes[axis] = static_cast<Index>(loop.sizes[axis]);
      for (int a = 0; a < arrays; ++a) strides[a][axis] = static_cast<Index>(loop.strides[a][axis]);
    }
  }

  // The offsets of an element in the arrays.
  __device__ void find(Index element, Index (&offsets)[arrays]) const {
    for (int a = 0; a < arrays; ++a) offsets[a] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const Index rest = axis > 0 ? element / sizes[axis] : 0;
      const Index digit = element - rest * sizes[axis];
      for (int a = 0; a < arrays; ++a) offsets[a] += digit * strides[a][axis];
      element = rest;
    }
  }
};

// visitor(DeviceLoop) with the smallest type that can number all elements and places.
template <int arrays, class Visitor>
void with_device_loop(const StridedLoop<arrays>& loop, Visitor&& visitor) {
  std::int64_t most = 1;
  for (int axis = 0; axis < loop.rank; ++axis) most *= loop.sizes[axis];
  for (int a = 0; a < arrays; ++a) {
    std::int64_t last = 0;
    for (int axis = 0; axis < loop.rank; ++axis)
      last += (loop.sizes[axis] - 1) * loop.strides[a][axis];
    most = std::max(most, last + 1);
  }
  with_index(most, [&](auto index) { visitor(DeviceLoop<arrays, decltype(index)>(loop)); });
}

}  // namespace tasuki::kernels
