#include "tensor/cuda/elementwise_kernels.hpp"

#include "tensor/cuda/elementwise_loops.cuh"
#include "tensor/cuda/strided.cuh"

namespace tasuki::kernels {
namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Subtract {
  __device__ float operator()(float a, float b) const { return a - b; }
};
struct Multiply {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Divide {
  __device__ float operator()(float a, float b) const { return a / b; }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};
struct Minimum {
  __device__ float operator()(float a, float b) const { return a < b || a != a ? a : b; }
};
struct PowerOf {
  __device__ float operator()(float a, float b) const { return powf(a, b); }
};
struct Equal {
  __device__ float operator()(float a, float b) const { return a == b ? 1 : 0; }
};
struct Greater {
  __device__ float operator()(float a, float b) const { return a > b ? 1 : 0; }
};
struct GreaterEqual {
  __device__ float operator()(float a, float b) const { return a >= b ? 1 : 0; }
};

struct Select {
  __device__ float operator()(float a, float b, float c) const { return a != 0 ? b : c; }
};
struct IfGreaterEqual {
  __device__ float operator()(float a, float b, float c) const { return a >= b ? c : 0; }
};
struct UnlessGreaterEqual {
  __device__ float operator()(float a, float b, float c) const { return a >= b ? 0 : c; }
};
struct IfEqual {
  __device__ float operator()(float a, float b, float c) const {
    return a == b || (a != a && b != b) ? c : 0;
  }
};
// b^2 would overflow where the gradient does not.
struct DivisorGradient {
  __device__ float operator()(float a, float b, float c) const { return -c * (a / b / b); }
};
struct BaseGradient {
  __device__ float operator()(float a, float b, float c) const {
    return b == 0 ? 0 : c * b * powf(a, b - 1);
  }
};
struct ExponentGradient {
  __device__ float operator()(float a, float b, float c) const {
    return a == 0 && b > 0 ? 0 : c * powf(a, b) * logf(a);
  }
};

template <class T, class F, class Index>
__global__ void combine2_kernel(F f, const __grid_constant__ DeviceLoop<2, Index> loop, T* y,
                                const T* a, const T* b, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    Index at[2];
    loop.find(static_cast<Index>(i), at);
    y[i] = convert<T>(f(convert<float>(a[at[0]]), convert<float>(b[at[1]])));
  }
}

template <class T, class F, class Index>
__global__ void combine3_kernel(F f, const __grid_constant__ DeviceLoop<3, Index> loop, T* y,
                                const T* a, const T* b, const T* c, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    Index at[3];
    loop.find(static_cast<Index>(i), at);
    y[i] =
        convert<T>(f(convert<float>(a[at[0]]), convert<float>(b[at[1]]), convert<float>(c[at[2]])));
  }
}

}  // namespace

void binary(const Launch& launch, Binary f, DType type, const void* a, const void* b, void* y,
            const StridedLoop<2>* loop, std::int64_t count) {
  if (count == 0) return;
  const auto run = [&](auto function) {
    if (loop == nullptr) return map_as(type, launch, function, count, y, a, b);
    with_float_type(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      with_device_loop(*loop, [&](const auto& walk) {
        combine2_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
            function, walk, static_cast<T*>(y), static_cast<const T*>(a), static_cast<const T*>(b),
            count);
      });
    });
  };
  switch (f) {
    case Binary::add:
      return run(Add{});
    case Binary::subtract:
      return run(Subtract{});
    case Binary::multiply:
      return run(Multiply{});
    case Binary::divide:
      return run(Divide{});
    case Binary::maximum:
      return run(Maximum{});
    case Binary::minimum:
      return run(Minimum{});
    case Binary::power:
      return run(PowerOf{});
    case Binary::equal:
      return run(Equal{});
    case Binary::greater:
      return run(Greater{});
    case Binary::greater_equal:
      return run(GreaterEqual{});
  }
}

void ternary(const Launch& launch, Ternary f, DType type, const void* a, const void* b,
             const void* c, void* y, const StridedLoop<3>* loop, std::int64_t count) {
  if (count == 0) return;
  const auto run = [&](auto function) {
    if (loop == nullptr) return map_as(type, launch, function, count, y, a, b, c);
    with_float_type(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      with_device_loop(*loop, [&](const auto& walk) {
        combine3_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
            function, walk, static_cast<T*>(y), static_cast<const T*>(a), static_cast<const T*>(b),
            static_cast<const T*>(c), count);
      });
    });
  };
  switch (f) {
    case Ternary::select:
      return run(Select{});
    case Ternary::if_greater_equal:
      return run(IfGreaterEqual{});
    case Ternary::unless_greater_equal:
      return run(UnlessGreaterEqual{});
    case Ternary::if_equal:
      return run(IfEqual{});
    case Ternary::divisor_gradient:
      return run(DivisorGradient{});
    case Ternary::base_gradient:
      return run(BaseGradient{});
    case Ternary::exponent_gradient:
      return run(ExponentGradient{});
  }
}

}  // namespace tasuki::kernels
