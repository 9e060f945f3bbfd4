// Dropout with counter-based random numbers.
#include "core/philox.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/philox_lanes.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Elements [begin, begin + count) of an example; `begin` is a multiple of a block. Element j uses
// word j % 4 of the block with counter {j / 4, 0, example}, and is kept if the word is at least
// `threshold` = ratio * 2^32 (compared in 24 bits, like unit_float).
TASUKI_VECTORIZE void dropout_kernel(const float* x, float* y, std::int64_t begin,
                                     std::int64_t count, float ratio, float scale,
                                     std::uint64_t seed, std::uint64_t example) {
  constexpr std::int64_t lanes = philox_lanes;
  for (std::int64_t first = 0; first < count; first += 4 * lanes) {
    std::uint32_t words[4][lanes];
    draw_philox(words, static_cast<std::uint32_t>((begin + first) / 4), seed, example);
    float factor[4 * lanes];
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      factor[4 * lane] = unit_float(words[0][lane]) >= ratio ? scale : 0;
      factor[4 * lane + 1] = unit_float(words[1][lane]) >= ratio ? scale : 0;
      factor[4 * lane + 2] = unit_float(words[2][lane]) >= ratio ? scale : 0;
      factor[4 * lane + 3] = unit_float(words[3][lane]) >= ratio ? scale : 0;
    }
    const std::int64_t here = count - first < 4 * lanes ? count - first : 4 * lanes;
    for (std::int64_t j = 0; j < here; ++j) y[first + j] = x[first + j] * factor[j];
  }
}

}  // namespace

Tensor CpuBackend::dropout(const Tensor& x, float ratio, const Tensor& seed,
                           const Tensor& example_ids) {
  TASUKI_CHECK(0 <= ratio && ratio < 1, "dropout: the ratio {} is not in [0, 1)", ratio);
  TASUKI_CHECK(x.shape().rank() >= 1 && x.shape()[0] == example_ids.count() && seed.count() == 1,
               "dropout: {} example numbers and {} seeds for a batch of {}", example_ids.count(),
               seed.count(), x.shape().text());
  const Tensor source = x.plain();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const std::int64_t items = x.shape()[0], count = x.shape().count_per_item();
  const FloatElements from(source), to(y);
  const std::int64_t most = from.is_float32() ? count : FloatElements::block;
  const auto key = static_cast<std::uint64_t>(*seed.data<std::int64_t>());
  const std::int64_t* const ids = example_ids.data<std::int64_t>();
  const std::int64_t grain = count == 0 ? items : elementwise_grain / 8 / count + 1;
  parallel_for(items, grain, [&](std::int64_t begin, std::int64_t end) {
    float in[FloatElements::block], out[FloatElements::block];
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t at = 0; at < count; at += most) {
        const std::int64_t first = i * count + at, length = std::min(most, count - at);
        float* const values = to.place(first, out);
        dropout_kernel(from.read(first, length, in), values, at, length, ratio, 1 / (1 - ratio),
                       key, static_cast<std::uint64_t>(ids[i]));
        to.write(first, length, values);
      }
  });
  return y;
}

}  // namespace tasuki
