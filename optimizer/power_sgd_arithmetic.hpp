// The arithmetic of PowerSgd: products of a matrix with a few vectors, and orthonormal bases.
// Results have the same bits on every processor and for any number of threads, so ranks that start
// from the same numbers end with the same numbers.
#pragma once

#include <cstdint>
#include <optional>

namespace tasuki {

// A matrix M is stored by rows. P and Q are `k` vectors each, one after another: a vector of P has
// a number for each row of M, a vector of Q for each column.

// P = M Q.
void multiply(const float* m, std::int64_t rows, std::int64_t columns, const float* q,
              std::int64_t k, float* p);
// Q = transpose(M) P.
void multiply_transposed(const float* m, std::int64_t rows, std::int64_t columns, const float* p,
                         std::int64_t k, float* q);
// M = P transpose(Q), and M -= P transpose(Q).
void write_product(float* m, std::int64_t rows, std::int64_t columns, const float* p,
                   const float* q, std::int64_t k);
void subtract_product(float* m, std::int64_t rows, std::int64_t columns, const float* p,
                      const float* q, std::int64_t k);
// values += others.
void add(float* values, const float* others, std::int64_t count);
// Replaces numbers that are infinite or NaN by 0.
void drop_infinite(float* values, std::int64_t count);

// Makes `k` vectors of `length` (at least k) orthonormal by the Gram-Schmidt process, applied twice
// against rounding errors; each stays within the span of itself and the vectors before it. A vector
// that depends linearly on those before it, up to the rounding of float32, becomes zero; with
// `draw`, it becomes a random direction orthogonal to the others, which is a function of that
// number.
void orthonormalize(float* vectors, std::int64_t length, std::int64_t k,
                    std::optional<std::uint64_t> draw);

}  // namespace tasuki
