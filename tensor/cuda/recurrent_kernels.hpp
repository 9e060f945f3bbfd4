// Kernels of recurrent layers. Every step computes all examples; those that have ended keep their
// states. Arrays over steps are time-major: row t N + n is step t of example n.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// N sequences of up to T elements in device memory. Lengths below 0 count as 0, above T as T.
struct Sequences {
  DType type = DType::float32;  // of activations
  const std::int64_t* lengths = nullptr;
  std::int64_t items = 0, steps = 0, units = 0;
  std::int64_t states = 1;  // 2: h and c (LSTM), 1: h (GRU)
  bool is_reversed = false;
};

// Between N x T x columns and time-major rows, in an example's order of steps; zeros for padding.
void pack_steps(const Launch& launch, const Sequences& s, const void* x, void* rows,
                std::int64_t columns);
void unpack_steps(const Launch& launch, const Sequences& s, const void* rows, void* x,
                  std::int64_t columns);

// The arrays of a forward pass: what row t N + n holds stands in brackets.
struct ForwardSteps {
  float* gates;           // [G H] in: what the input adds; out: the gates
  const float* products;  // N x G H: what h adds in this step
  const float* bh;        // G H
  void* h;                // [H] before step t, of `type`; T + 1 steps
  float* c;               // the same of c, of an LSTM
  float* recurrent_n;     // [H] of a GRU, as on CPUs (recurrent_kernels.hpp there)
  void* y;                // N x T x H
  void* states;           // N x S x H, after the last step
};
// Row 0 of h and c from `states` (N x S x H of `type`, null for zeros).
void begin_states(const Launch& launch, const Sequences& s, const void* states,
                  const ForwardSteps& arrays);
void recurrent_step(const Launch& launch, const Sequences& s, const ForwardSteps& arrays,
                    std::int64_t step);
// `states` from the last rows of h and c.
void end_states(const Launch& launch, const Sequences& s, const ForwardSteps& arrays);

// The arrays of a backward pass; the gradient of h is returned + carried.
struct BackwardSteps {
  const void* dy;            // N x T x H; null for zeros
  const void* dlast;         // of the last states, N x S x H; null for zeros
  const float* returned;     // N x H: what came back through the products of the step after
  float* carried;            // N x H: what did not pass through products
  float* dc;                 // N x H
  void *dgates, *dproducts;  // [G H] of `type`; the same array for an LSTM
};
// Sets carried and dc from dlast.
void begin_gradients(const Launch& launch, const Sequences& s, const BackwardSteps& arrays);
void recurrent_step_backward(const Launch& launch, const Sequences& s, const ForwardSteps& forward,
                             const BackwardSteps& arrays, std::int64_t step);
// dstates: N x S x H of `type`.
void end_gradients(const Launch& launch, const Sequences& s, const BackwardSteps& arrays,
                   void* dstates);

}  // namespace tasuki::kernels
