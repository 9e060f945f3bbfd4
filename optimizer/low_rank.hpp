// Products of a matrix with a few vectors, and what turns these into an orthonormal basis: the
// arithmetic of PowerSgd. The loops give the same bits on every processor and with any number of
// threads, so ranks that start from the same numbers end with the same ones.
#pragma once

#include <cstdint>
#include <optional>

namespace tasuki {

// A matrix M is stored by rows; `k` vectors of one length, here P (of M's rows) and Q (of its
// columns), one after the other.

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
// those before, up to the rounding of float32, becomes zero; with `draw`, a random direction
// orthogonal to the others, the same one for the same number.
void orthonormalize(float* vectors, std::int64_t length, std::int64_t k,
                    std::optional<std::uint64_t> draw);

}  // namespace tasuki
