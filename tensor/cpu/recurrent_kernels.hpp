// The gates of LSTM and GRU for one example and one step: rows of H units, gates one after the
// other as in RecurrentLayer. The arrays of one call do not overlap, unless it says so.
#pragma once

#include <cstdint>

#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZED_BEGIN

// `gates`: in, what the input adds to each gate; out, the gates. `products`: what h adds.
void lstm_gates(float* gates, const float* products, const float* c_before, float* c, float* h,
                std::int64_t units);
// `dgates`: the gradients before the activations. `dc`: in and out, of c and of c_before.
void lstm_gates_backward(const float* gates, const float* c_before, const float* c, const float* dh,
                         float* dc, float* dgates, std::int64_t units);

// `recurrent_n`: is set to what h adds to n before the reset gate: products of n, with their bias.
void gru_gates(float* gates, const float* products, const float* h_before, float* recurrent_n,
               float* h, std::int64_t units);
// `dgates` as above; `dproducts`: of `products`. `carried`: the gradient of h_before that does not
// pass through products.
void gru_gates_backward(const float* gates, const float* h_before, const float* recurrent_n,
                        const float* dh, float* dgates, float* dproducts, float* carried,
                        std::int64_t units);

// to = a + b; `to` may be one of them.
void add_rows(const float* a, const float* b, float* to, std::int64_t count);

TASUKI_VECTORIZED_END
}  // namespace tasuki
