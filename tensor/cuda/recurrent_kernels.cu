#include "tensor/cuda/recurrent_kernels.hpp"

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

__device__ inline std::int64_t length_of(const Sequences& s, std::int64_t item) {
  const std::int64_t length = s.lengths[item];
  return length < 0 ? 0 : length > s.steps ? s.steps : length;
}

// The element of an example that step t works on; padding is its own.
__device__ inline std::int64_t element_of(const Sequences& s, std::int64_t length,
                                          std::int64_t step) {
  return s.is_reversed && step < length ? length - 1 - step : step;
}

// Where y, or dy, has value k of an element.
__device__ inline std::int64_t result_at(const Sequences& s, std::int64_t item,
                                         std::int64_t element, std::int64_t k) {
  return (item * s.steps + element) * s.units + k;
}

// Where an array of states has the first one's value i (of N x H); that of c is s.units further.
template <class Index>
__device__ inline std::int64_t state_at(const Sequences& s, std::int64_t i) {
  const auto [item, k] = divide(static_cast<Index>(i), static_cast<Index>(s.units));
  return item * s.states * s.units + k;
}

template <class T, bool unpacks, class Index>
__global__ void pack_kernel(Sequences s, const T* from, T* to, std::int64_t columns) {
  for (std::int64_t i = thread_index(); i < s.steps * s.items * columns; i += thread_count()) {
    const auto [row, k] = divide(static_cast<Index>(i), static_cast<Index>(columns));
    const auto [t, item] = divide(row, static_cast<Index>(s.items));
    const std::int64_t length = length_of(s, item), element = element_of(s, length, t);
    const std::int64_t padded = (item * s.steps + element) * columns + k;
    const std::int64_t source = unpacks ? i : padded, target = unpacks ? padded : i;
    to[target] = t < length ? from[source] : convert<T>(0.0f);
  }
}

template <class T, class Index>
__global__ void begin_states_kernel(Sequences s, const T* states, ForwardSteps arrays) {
  for (std::int64_t i = thread_index(); i < s.items * s.units; i += thread_count()) {
    const std::int64_t from = state_at<Index>(s, i);
    static_cast<T*>(arrays.h)[i] = states != nullptr ? states[from] : convert<T>(0.0f);
    if (s.states == 2)
      arrays.c[i] = states != nullptr ? convert<float>(states[from + s.units]) : 0.0f;
  }
}

template <class T, class Index>
__global__ void step_kernel(Sequences s, ForwardSteps arrays, std::int64_t step) {
  const std::int64_t values = s.items * s.units, gates = s.states == 2 ? 4 : 3;
  const T* const before = static_cast<const T*>(arrays.h) + step * values;
  T* const after = static_cast<T*>(arrays.h) + (step + 1) * values;
  for (std::int64_t i = thread_index(); i < values; i += thread_count()) {
    const auto [item, k] = divide(static_cast<Index>(i), static_cast<Index>(s.units));
    const std::int64_t length = length_of(s, item);
    T* const y = static_cast<T*>(arrays.y) + result_at(s, item, element_of(s, length, step), k);
    if (step >= length) {
      after[i] = before[i];
      if (s.states == 2) arrays.c[(step + 1) * values + i] = arrays.c[step * values + i];
      *y = convert<T>(0.0f);
      continue;
    }
    const float* const products = arrays.products + item * gates * s.units + k;
    float* const g = arrays.gates + (step * s.items + item) * gates * s.units + k;
    const auto from_h = [&](int gate) {
      return products[gate * s.units] + arrays.bh[gate * s.units + k];
    };
    float h;
    if (s.states == 2) {
      const float in = sigmoid(g[0] + from_h(0)), f = sigmoid(g[s.units] + from_h(1));
      const float a = tanhf(g[2 * s.units] + from_h(2)), o = sigmoid(g[3 * s.units] + from_h(3));
      const float c = f * arrays.c[step * values + i] + in * a;
      arrays.c[(step + 1) * values + i] = c;
      g[0] = in;
      g[s.units] = f;
      g[2 * s.units] = a;
      g[3 * s.units] = o;
      h = o * tanhf(c);
    } else {
      const float r = sigmoid(g[0] + from_h(0)), z = sigmoid(g[s.units] + from_h(1));
      const float recurrent_n = from_h(2), n = tanhf(g[2 * s.units] + r * recurrent_n);
      arrays.recurrent_n[step * values + i] = recurrent_n;
      g[0] = r;
      g[s.units] = z;
      g[2 * s.units] = n;
      h = n + z * (convert<float>(before[i]) - n);
    }
    after[i] = *y = convert<T>(h);
  }
}

template <class T, class Index>
__global__ void end_states_kernel(Sequences s, ForwardSteps arrays) {
  const std::int64_t values = s.items * s.units;
  T* const states = static_cast<T*>(arrays.states);
  for (std::int64_t i = thread_index(); i < values; i += thread_count()) {
    const std::int64_t to = state_at<Index>(s, i);
    states[to] = static_cast<const T*>(arrays.h)[s.steps * values + i];
    if (s.states == 2) states[to + s.units] = convert<T>(arrays.c[s.steps * values + i]);
  }
}

template <class T, class Index>
__global__ void begin_gradients_kernel(Sequences s, BackwardSteps arrays) {
  const T* const dlast = static_cast<const T*>(arrays.dlast);
  for (std::int64_t i = thread_index(); i < s.items * s.units; i += thread_count()) {
    const std::int64_t from = state_at<Index>(s, i);
    arrays.carried[i] = dlast != nullptr ? convert<float>(dlast[from]) : 0.0f;
    if (s.states == 2)
      arrays.dc[i] = dlast != nullptr ? convert<float>(dlast[from + s.units]) : 0.0f;
  }
}

template <class T, class Index>
__global__ void step_backward_kernel(Sequences s, ForwardSteps forward, BackwardSteps arrays,
                                     std::int64_t step) {
  const std::int64_t values = s.items * s.units, gates = s.states == 2 ? 4 : 3;
  for (std::int64_t i = thread_index(); i < values; i += thread_count()) {
    const auto [item, k] = divide(static_cast<Index>(i), static_cast<Index>(s.units));
    const std::int64_t length = length_of(s, item);
    const std::int64_t row = (step * s.items + item) * gates * s.units + k;
    T* const dg = static_cast<T*>(arrays.dgates) + row;
    T* const dp = static_cast<T*>(arrays.dproducts) + row;
    float dh = arrays.returned[i] + arrays.carried[i];
    if (step >= length) {
      for (int gate = 0; gate < gates; ++gate)
        dg[gate * s.units] = dp[gate * s.units] = convert<T>(0.0f);
      arrays.carried[i] = dh;
      continue;
    }
    if (arrays.dy != nullptr)
      dh += convert<float>(
          static_cast<const T*>(arrays.dy)[result_at(s, item, element_of(s, length, step), k)]);
    const float* const g = forward.gates + row;
    if (s.states == 2) {
      const float in = g[0], f = g[s.units], a = g[2 * s.units], o = g[3 * s.units];
      const float tanh_c = tanhf(forward.c[(step + 1) * values + i]);
      const float d = arrays.dc[i] + dh * o * (1.0f - tanh_c * tanh_c);
      dg[0] = convert<T>(d * a * in * (1.0f - in));
      dg[s.units] = convert<T>(d * forward.c[step * values + i] * f * (1.0f - f));
      dg[2 * s.units] = convert<T>(d * in * (1.0f - a * a));
      dg[3 * s.units] = convert<T>(dh * tanh_c * o * (1.0f - o));
      arrays.dc[i] = d * f;
      arrays.carried[i] = 0.0f;
    } else {
      const float r = g[0], z = g[s.units], n = g[2 * s.units];
      const float before = convert<float>(static_cast<const T*>(forward.h)[step * values + i]);
      const float dn = dh * (1.0f - z) * (1.0f - n * n);
      dg[0] = dp[0] = convert<T>(dn * forward.recurrent_n[step * values + i] * r * (1.0f - r));
      dg[s.units] = dp[s.units] = convert<T>(dh * (before - n) * z * (1.0f - z));
      dg[2 * s.units] = convert<T>(dn);
      dp[2 * s.units] = convert<T>(dn * r);
      arrays.carried[i] = dh * z;
    }
  }
}

template <class T, class Index>
__global__ void end_gradients_kernel(Sequences s, BackwardSteps arrays, T* dstates) {
  for (std::int64_t i = thread_index(); i < s.items * s.units; i += thread_count()) {
    const std::int64_t to = state_at<Index>(s, i);
    dstates[to] = convert<T>(arrays.returned[i] + arrays.carried[i]);
    if (s.states == 2) dstates[to + s.units] = convert<T>(arrays.dc[i]);
  }
}

// visitor(Type<T>{}, Index{}) with the type of activations and one that numbers `count` elements.
template <class Visitor>
void with_types(const Sequences& s, std::int64_t count, Visitor&& visitor) {
  with_float_type(s.type,
                  [&](auto t) { with_index(count, [&](auto index) { visitor(t, index); }); });
}

template <bool unpacks>
void copy_steps(const Launch& launch, const Sequences& s, const void* from, void* to,
                std::int64_t columns) {
  const std::int64_t count = s.steps * s.items * columns;
  with_types(s, count, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    pack_kernel<T, unpacks, decltype(index)>
        <<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
            s, static_cast<const T*>(from), static_cast<T*>(to), columns);
  });
}

}  // namespace

void pack_steps(const Launch& launch, const Sequences& s, const void* x, void* rows,
                std::int64_t columns) {
  copy_steps<false>(launch, s, x, rows, columns);
}

void unpack_steps(const Launch& launch, const Sequences& s, const void* rows, void* x,
                  std::int64_t columns) {
  copy_steps<true>(launch, s, rows, x, columns);
}

void begin_states(const Launch& launch, const Sequences& s, const void* states,
                  const ForwardSteps& arrays) {
  with_types(s, s.items * s.units, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    begin_states_kernel<T, decltype(index)>
        <<<grid_for(launch, s.items * s.units), block_threads, 0, launch.stream>>>(
            s, static_cast<const T*>(states), arrays);
  });
}

void recurrent_step(const Launch& launch, const Sequences& s, const ForwardSteps& arrays,
                    std::int64_t step) {
  with_types(s, s.items * s.units, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    step_kernel<T, decltype(index)>
        <<<grid_for(launch, s.items * s.units), block_threads, 0, launch.stream>>>(s, arrays, step);
  });
}

void end_states(const Launch& launch, const Sequences& s, const ForwardSteps& arrays) {
  with_types(s, s.items * s.units, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    end_states_kernel<T, decltype(index)>
        <<<grid_for(launch, s.items * s.units), block_threads, 0, launch.stream>>>(s, arrays);
  });
}

void begin_gradients(const Launch& launch, const Sequences& s, const BackwardSteps& arrays) {
  with_types(s, s.items * s.units, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    begin_gradients_kernel<T, decltype(index)>
        <<<grid_for(launch, s.items * s.units), block_threads, 0, launch.stream>>>(s, arrays);
  });
}

void recurrent_step_backward(const Launch& launch, const Sequences& s, const ForwardSteps& forward,
                             const BackwardSteps& arrays, std::int64_t step) {
  with_types(s, s.items * s.units, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    step_backward_kernel<T, decltype(index)>
        <<<grid_for(launch, s.items * s.units), block_threads, 0, launch.stream>>>(s, forward,
                                                                                   arrays, step);
  });
}

void end_gradients(const Launch& launch, const Sequences& s, const BackwardSteps& arrays,
                   void* dstates) {
  with_types(s, s.items * s.units, [&](auto t, auto index) {
    using T = typename decltype(t)::type;
    end_gradients_kernel<T, decltype(index)>
        <<<grid_for(launch, s.items * s.units), block_threads, 0, launch.stream>>>(
            s, arrays, static_cast<T*>(dstates));
  });
}

}  // namespace tasuki::kernels
