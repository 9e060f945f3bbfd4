#include "tensor/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

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

TASUKI_VECTORIZE void add_floats(float* __restrict sum, const float* __restrict a,
                                 const float* __restrict b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

TASUKI_VECTORIZE bool has_non_finite(const float* x, std::int64_t count) {
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < count; ++i)
    found |= (std::bit_cast<std::uint32_t>(x[i]) & float_exponent) == float_exponent ? 1U : 0U;
  return found != 0;
}

// A block of the arrays on the stack of sum_in_tree(): a part of a source, or a sum.
class BlocksOfSums {
 public:
  static constexpr std::int64_t block = 1024;  // elements: the stack stays in the first-level cache

  explicit BlocksOfSums(std::size_t depth) : sums_(depth) {}

  void push(const float* source) { stack_.push_back(source); }
  void merge(std::int64_t count) {
    const float* const right = stack_.back();
    stack_.pop_back();
    float* const sum = sums_[stack_.size() - 1].data();
    if (stack_.back() == sum)
      combine_float[static_cast<std::size_t>(ReduceOp::sum)].accumulate(sum, right, count);
    else
      add_floats(sum, stack_.back(), right, count);
    stack_.back() = sum;
  }
  // Copies sources on the stack, so that all arrays are here.
  void keep(std::int64_t count) {
    for (std::size_t i = 0; i < stack_.size(); ++i) {
      float* const own = sums_[i].data();
      if (stack_[i] != own)
        std::memcpy(own, stack_[i], static_cast<std::size_t>(count) * sizeof(float));
      stack_[i] = own;
    }
  }
  std::span<const float* const> arrays() const { return stack_; }
  void clear() { stack_.clear(); }

 private:
  std::vector<std::array<float, block>> sums_;  // at each height of the stack
  std::vector<const float*> stack_;
};

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

bool sum_in_tree(std::span<const float* const> sources, std::span<const int> merges,
                 std::span<const std::vector<float*>> results, std::int64_t count, bool searches) {
  TASUKI_CHECK(sources.size() == merges.size(), "{} arrays and {} numbers of additions",
               sources.size(), merges.size());
  std::size_t height = 0, highest = 0;
  for (const int added : merges) {
    highest = std::max(highest, ++height);
    TASUKI_CHECK(added >= 0 && std::cmp_less(added, height), "{} additions of {} arrays", added,
                 height);
    height -= static_cast<std::size_t>(added);
  }
  TASUKI_CHECK(height == results.size(), "places for {} of {} sums", results.size(), height);
  BlocksOfSums sums(highest);
  bool is_found = false;
  for (std::int64_t begin = 0; begin < count; begin += BlocksOfSums::block) {
    const std::int64_t length = std::min(BlocksOfSums::block, count - begin);
    sums.clear();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      sums.push(sources[i] + begin);
      for (int added = 0; added < merges[i]; ++added) sums.merge(length);
    }
    // A place that is written may be a source that is a result as it is.
    sums.keep(length);
    for (std::size_t j = 0; j < results.size(); ++j) {
      const float* const result = sums.arrays()[j];
      is_found = (searches && has_non_finite(result, length)) || is_found;
      for (float* const destination : results[j])
        std::memcpy(destination + begin, result, static_cast<std::size_t>(length) * sizeof(float));
    }
  }
  return is_found;
}

}  // namespace tasuki
