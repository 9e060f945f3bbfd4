// Values of 16-bit activations (float16, bfloat16) as floats: everything but products of matrices
// is computed in float32.
//
// Loops take float32 as it lies in memory. They read 16-bit values a block at a time, which stays
// in the first cache, so a loop costs the memory traffic of 16-bit values and a conversion.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "tensor/cpu/elementwise_operands.hpp"
#include "tensor/half.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

// Elements of a tensor of float32 or 16 bits, in the order of its memory.
class FloatElements {
 public:
  // As many floats as a caller's block holds.
  static constexpr std::int64_t block = 1024;

  // An undefined tensor has no elements.
  explicit FloatElements(const Tensor& tensor)
      : memory_(tensor.raw()), is_float32_(!has_16_bits(tensor.dtype())) {
    if (is_float32_)
      memory_ = floats(tensor);
    else
      format_ = half_format(tensor.dtype());
  }

  explicit operator bool() const { return memory_ != nullptr; }
  bool is_float32() const { return is_float32_; }
  // `count` of them from `begin` on: where they lie, or converted into `block`.
  const float* read(std::int64_t begin, std::int64_t count, float* block) const {
    if (is_float32_) return static_cast<const float*>(memory_) + begin;
    format_.widen(block, static_cast<const std::uint16_t*>(memory_) + begin, count);
    return block;
  }
  // Where to write floats that are then stored by write(): their place in memory, or `block`.
  float* place(std::int64_t begin, float* block) const {
    return is_float32_ ? static_cast<float*>(memory_) + begin : block;
  }
  void write(std::int64_t begin, std::int64_t count, const float* block) const {
    if (!is_float32_) format_.narrow(static_cast<std::uint16_t*>(memory_) + begin, block, count);
  }
  // The same for `rows` rows of `count` elements that begin `step` apart: in a block they lie side
  // by side. `Float`: float or const float.
  template <class Float>
  struct Rows {
    Float* values;
    std::int64_t step;
  };
  Rows<const float> read_rows(std::int64_t begin, std::int64_t rows, std::int64_t step,
                              std::int64_t count, float* block) const {
    if (is_float32_) return {static_cast<const float*>(memory_) + begin, step};
    for (std::int64_t i = 0; i < rows; ++i) read(begin + i * step, count, block + i * count);
    return {block, count};
  }
  Rows<float> place_rows(std::int64_t begin, std::int64_t step, std::int64_t count,
                         float* block) const {
    return {place(begin, block), is_float32_ ? step : count};
  }
  void write_rows(std::int64_t begin, std::int64_t rows, std::int64_t step, std::int64_t count,
                  const float* block) const {
    if (is_float32_) return;
    for (std::int64_t i = 0; i < rows; ++i) write(begin + i * step, count, block + i * count);
  }
  // Copies from and to floats that lie elsewhere.
  void load(std::int64_t begin, std::int64_t count, float* to) const {
    if (const float* const from = read(begin, count, to); from != to) std::copy_n(from, count, to);
  }
  void store(std::int64_t begin, std::int64_t count, const float* from) const {
    if (is_float32_)
      std::copy_n(from, count, static_cast<float*>(memory_) + begin);
    else
      write(begin, count, from);
  }

 private:
  void* memory_;
  bool is_float32_;
  HalfFormat format_{};
};

// A thread's memory for `count` blocks of elements of 16 bits; none if the elements are float32.
template <int count>
class FloatBuffers {
 public:
  FloatBuffers(const FloatElements& elements, std::int64_t length)
      : length_(elements.is_float32() ? 0 : length),
        values_(std::make_unique_for_overwrite<float[]>(  // NOLINT(modernize-avoid-c-arrays)
            static_cast<std::size_t>(count * length_))) {}
  float* operator[](int which) { return values_.get() + which * length_; }

 private:
  std::int64_t length_;
  std::unique_ptr<float[]> values_;  // NOLINT(modernize-avoid-c-arrays): not written first
};

// Calls kernel(addresses of the inputs, of the result, count) for all `count` elements of tensors
// in one layout, on several threads. The result may be one of the inputs.
template <std::size_t inputs, class Kernel>
void for_float_blocks(std::int64_t count, const std::array<FloatElements, inputs>& from,
                      const FloatElements& to, const Kernel& kernel) {
  const bool are_float32 = to.is_float32() && std::ranges::all_of(from, &FloatElements::is_float32);
  parallel_for(count, elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t most = FloatElements::block;
    float blocks[inputs + 1][most];
    std::array<const float*, inputs> in{};
    while (begin < end) {
      const std::int64_t length = are_float32 ? end - begin : std::min(most, end - begin);
      for (std::size_t i = 0; i < inputs; ++i) in[i] = from[i].read(begin, length, blocks[i]);
      float* const result = to.place(begin, blocks[inputs]);
      kernel(in, result, length);
      to.write(begin, length, result);
      begin += length;
    }
  });
}

// For operations without loops for 16 bits: the values in float32, plain if they had 16 bits; and a
// result in the type of the activations.
inline Tensor in_float32(const Tensor& x) {
  return x && has_16_bits(x.dtype()) ? x.to(DType::float32) : x;
}
inline Tensor in_type(const Tensor& result, DType type) {
  return result && has_16_bits(type) ? result.to(type) : result;
}

}  // namespace tasuki
