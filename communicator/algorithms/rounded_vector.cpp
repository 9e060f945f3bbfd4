#include "communicator/algorithms/rounded_vector.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensor/half.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Elements that are converted at a time: their copies stay in the first-level cache.
constexpr std::int64_t block = 2048;
using Floats = std::array<float, block>;

TASUKI_VECTORIZE void multiply(float* result, const float* x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = x[i] * factor;
}
TASUKI_VECTORIZE void rescale(float* values, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
}
TASUKI_VECTORIZE void add_scaled(float* result, const float* x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] += x[i] * factor;
}
// Where rounding has overflowed, the difference is infinite and is not kept, as the next sum would
// overflow again.
TASUKI_VECTORIZE void keep_difference(float* residual, const float* values, const float* rounded,
                                      std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float lost = values[i] - rounded[i];
    residual[i] += lost - lost == 0 ? lost : 0;
  }
}

template <class Work>
void in_blocks(Range range, const Work& work) {
  for (std::int64_t begin = range.begin; begin < range.end; begin += block)
    work(begin, std::min(block, range.end - begin));
}

std::uint16_t* halves_of(std::byte* message) {
  return reinterpret_cast<std::uint16_t*>(message);
}
const std::uint16_t* halves_of(const std::byte* message) {
  return reinterpret_cast<const std::uint16_t*>(message);
}

}  // namespace

RoundedVector::RoundedVector(float* values, const Wire& wire) : values_(values), wire_(wire) {}

Range RoundedVector::rounded_part(Range range) const {
  return {range.begin, std::clamp(wire_.exact_from, range.begin, range.end)};
}

Range RoundedVector::exact_part(Range range) const {
  return {rounded_part(range).end, range.end};
}

// An odd number of 16-bit values is followed by a gap, so that float32 values are aligned.
std::int64_t RoundedVector::place_of_exact(Range range) const {
  return 4 * ((rounded_part(range).size() + 1) / 2);
}

std::int64_t RoundedVector::bytes_of(Range range) const {
  const std::int64_t rounded = rounded_part(range).size(), exact = exact_part(range).size();
  return exact == 0 ? 2 * rounded : place_of_exact(range) + 4 * exact;
}

void RoundedVector::restore(Range range) const {
  if (wire_.residual == nullptr) return;
  const Range part = rounded_part(range);
  float* const residual = wire_.residual + part.begin;
  add_scaled(values_ + part.begin, residual, 1, part.size());
  std::fill_n(residual, part.size(), 0.0F);
}

void RoundedVector::round(Range range, std::byte* message) const {
  const HalfFormat format = half_format(wire_.format.dtype);
  alignas(64) Floats scaled;
  alignas(64) std::array<std::uint16_t, block> halves;
  in_blocks(rounded_part(range), [&](std::int64_t begin, std::int64_t count) {
    float* const values = values_ + begin;
    std::uint16_t* const sent =
        message == nullptr ? halves.data() : halves_of(message) + (begin - range.begin);
    multiply(scaled.data(), values, wire_.format.factor, count);
    format.narrow(sent, scaled.data(), count);
    format.widen(scaled.data(), sent, count);
    rescale(scaled.data(), 1 / wire_.format.factor, count);
    if (wire_.residual != nullptr)
      keep_difference(wire_.residual + begin, values, scaled.data(), count);
    std::memcpy(values, scaled.data(), static_cast<std::size_t>(count) * sizeof(float));
  });
  const Range exact = exact_part(range);
  if (message != nullptr && exact.size() > 0)
    std::memcpy(message + place_of_exact(range), values_ + exact.begin,
                static_cast<std::size_t>(exact.size()) * sizeof(float));
}

void RoundedVector::replace(Range range, const std::byte* message) const {
  const HalfFormat format = half_format(wire_.format.dtype);
  in_blocks(rounded_part(range), [&](std::int64_t begin, std::int64_t count) {
    format.widen(values_ + begin, halves_of(message) + (begin - range.begin), count);
    rescale(values_ + begin, 1 / wire_.format.factor, count);
  });
  const Range exact = exact_part(range);
  if (exact.size() > 0)
    std::memcpy(values_ + exact.begin, message + place_of_exact(range),
                static_cast<std::size_t>(exact.size()) * sizeof(float));
}

void RoundedVector::add(Range range, const std::byte* message) const {
  const HalfFormat format = half_format(wire_.format.dtype);
  alignas(64) Floats arrived;
  in_blocks(rounded_part(range), [&](std::int64_t begin, std::int64_t count) {
    format.widen(arrived.data(), halves_of(message) + (begin - range.begin), count);
    add_scaled(values_ + begin, arrived.data(), 1 / wire_.format.factor, count);
  });
  const Range exact = exact_part(range);
  if (exact.size() > 0)
    add_scaled(values_ + exact.begin,
               reinterpret_cast<const float*>(message + place_of_exact(range)), 1, exact.size());
}

}  // namespace tasuki
