#include "tensor/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "tensor/half.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Bytes of the running result: small enough to stay in the first-level cache next to the sources.
constexpr std::int64_t block_bytes = 8192;

// accumulate: result[i] = result[i] op x[i]; pair: first[i] = second[i] = first[i] op second[i],
// the whole exchange of two ranks.
// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define TASUKI_COMBINE(T, OP, EXPRESSION)                                                  \
  TASUKI_VECTORIZE void accumulate_##OP##_##T(T* result, const T* x, std::int64_t count) { \
    for (std::int64_t i = 0; i < count; ++i) {                                             \
      const T a = result[i], b = x[i];                                                     \
      result[i] = EXPRESSION;                                                              \
    }                                                                                      \
  }                                                                                        \
  TASUKI_VECTORIZE void pair_##OP##_##T(T* __restrict first, T* __restrict second,         \
                                        std::int64_t count) {                              \
    for (std::int64_t i = 0; i < count; ++i) {                                             \
      const T a = first[i], b = second[i];                                                 \
      first[i] = second[i] = EXPRESSION;                                                   \
    }                                                                                      \
  }
// NOLINTEND(bugprone-macro-parentheses)

#define TASUKI_COMBINE_TYPE(T)                                              \
  TASUKI_COMBINE(T, sum, static_cast<T>(a + b))                             \
  TASUKI_COMBINE(T, max, a < b ? b : a)                                     \
  TASUKI_COMBINE(T, min, b < a ? b : a)                                     \
  TASUKI_COMBINE(T, prod, static_cast<T>(a * b))                            \
  constexpr Combine<T> combine_##T[] = {{accumulate_sum_##T, pair_sum_##T}, \
                                        {accumulate_max_##T, pair_max_##T}, \
                                        {accumulate_min_##T, pair_min_##T}, \
                                        {accumulate_prod_##T, pair_prod_##T}};

template <class T>
struct Combine {
  void (*accumulate)(T* result, const T* x, std::int64_t count);
  void (*pair)(T* first, T* second, std::int64_t count);
};

using int32 = std::int32_t;
using int64 = std::int64_t;
TASUKI_COMBINE_TYPE(float)
TASUKI_COMBINE_TYPE(double)
TASUKI_COMBINE_TYPE(int32)
TASUKI_COMBINE_TYPE(int64)

// Sums of floats; whether one of them is not finite shows in its exponent. Loads and integer
// operations without a branch, so that the loop takes no longer than memory does. A partial sum
// that is not finite makes no finite sum.
constexpr std::uint32_t float_exponent = 0x7f800000;

TASUKI_VECTORIZE bool accumulate_and_search(float* result, const float* x, std::int64_t count) {
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = result[i] + x[i];
    found |= (std::bit_cast<std::uint32_t>(sum) & float_exponent) == float_exponent ? 1U : 0U;
    result[i] = sum;
  }
  return found != 0;
}

TASUKI_VECTORIZE bool pair_and_search(float* __restrict first, float* __restrict second,
                                      std::int64_t count) {
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = first[i] + second[i];
    found |= (std::bit_cast<std::uint32_t>(sum) & float_exponent) == float_exponent ? 1U : 0U;
    first[i] = second[i] = sum;
  }
  return found != 0;
}

// `accumulate` and `pair` as in Combine.
template <class T, class Accumulate, class Pair>
void reduce_blocks(const Accumulate& accumulate, const Pair& pair,
                   std::span<const void* const> sources, std::span<void* const> destinations,
                   std::int64_t count) {
  if (sources.size() == 2 && destinations.size() == 2 && sources[0] == destinations[0] &&
      sources[1] == destinations[1]) {
    pair(static_cast<T*>(destinations[0]), static_cast<T*>(destinations[1]), count);
    return;
  }
  constexpr std::int64_t block = block_bytes / sizeof(T);
  alignas(64) std::array<T, block> result;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    const auto bytes = static_cast<std::size_t>(length) * sizeof(T);
    std::memcpy(result.data(), static_cast<const T*>(sources[0]) + begin, bytes);
    for (const void* source : sources.subspan(1))
      accumulate(result.data(), static_cast<const T*>(source) + begin, length);
    for (void* destination : destinations)
      std::memcpy(static_cast<T*>(destination) + begin, result.data(), bytes);
  }
}

template <class T>
void reduce_blocks(const Combine<T>& combine, std::span<const void* const> sources,
                   std::span<void* const> destinations, std::int64_t count) {
  reduce_blocks<T>(combine.accumulate, combine.pair, sources, destinations, count);
}

void reduce_halves(const HalfFormat& format, ReduceOp op, std::span<const void* const> sources,
                   std::span<void* const> destinations, std::int64_t count) {
  constexpr std::int64_t block = block_bytes / sizeof(float);
  alignas(64) std::array<float, block> result, operand;
  alignas(64) std::array<std::uint16_t, block> narrow;
  const auto accumulate = combine_float[static_cast<std::size_t>(op)].accumulate;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    format.widen(result.data(), static_cast<const std::uint16_t*>(sources[0]) + begin, length);
    for (const void* source : sources.subspan(1)) {
      format.widen(operand.data(), static_cast<const std::uint16_t*>(source) + begin, length);
      accumulate(result.data(), operand.data(), length);
    }
    format.narrow(narrow.data(), result.data(), length);
    for (void* destination : destinations)
      std::memcpy(static_cast<std::uint16_t*>(destination) + begin, narrow.data(),
                  static_cast<std::size_t>(length) * sizeof(std::uint16_t));
  }
}

}  // namespace

void reduce_arrays(DType type, ReduceOp op, std::span<const void* const> sources,
                   std::span<void* const> destinations, std::int64_t count) {
  TASUKI_CHECK(!sources.empty(), "a reduction of no arrays");
  const auto number = static_cast<std::size_t>(op);
  switch (type) {
    case DType::float32:
      return reduce_blocks(combine_float[number], sources, destinations, count);
    case DType::float64:
      return reduce_blocks(combine_double[number], sources, destinations, count);
    case DType::int32:
      return reduce_blocks(combine_int32[number], sources, destinations, count);
    case DType::int64:
      return reduce_blocks(combine_int64[number], sources, destinations, count);
    case DType::float16:
    case DType::bfloat16:
      return reduce_halves(half_format(type), op, sources, destinations, count);
    case DType::uint8:
      break;
  }
  fail(ErrorKind::usage, "{} values cannot be reduced; convert them to int32 or float32 first",
       name_of(type));
}

bool sum_arrays_and_search(std::span<const void* const> sources,
                           std::span<void* const> destinations, std::int64_t count) {
  TASUKI_CHECK(sources.size() >= 2, "a search in the sum of {} array(s)", sources.size());
  bool is_found = false;
  const auto accumulate = [&](float* result, const float* x, std::int64_t length) {
    is_found = accumulate_and_search(result, x, length) || is_found;
  };
  const auto pair = [&](float* first, float* second, std::int64_t length) {
    is_found = pair_and_search(first, second, length) || is_found;
  };
  reduce_blocks<float>(accumulate, pair, sources, destinations, count);
  return is_found;
}

}  // namespace tasuki
