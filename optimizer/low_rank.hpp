// The arithmetic of PowerSgd: products of a matrix with a few vectors, and their orthonormal basis.
// The loops give the same bits on every processor and with any number of threads, so ranks that
// start from the same numbers end with the same ones.
#pragma once

#include <cstdint>
#include <optional>

namespace tasuki {

// A matrix M is stored by rows. P and Q are `k` vectors each, one after the other: those of P have
// a number for each row of M, those of Q for each column.

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
// Puts 0 in the place of numbers that are infinite or undefined.
void drop_infinite(float* values, std::int64_t count);

// Makes `k` vectors of `length` (at least k) orthonormal, each within the span of itself and those
// before (Gram and Schmidt, twice, which removes what rounding leaves). A vector that depends on
// those before, up to the rounding of float32, becomes zero; with `draw` it becomes a random
// direction orthogonal to the others, which is a function of that number.
void orthonormalize(float* vectors, std::int64_t length, std::int64_t k,
                    std::optional<std::uint64_t> draw);

}  // namespace tasuki
