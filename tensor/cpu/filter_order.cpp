#include "tensor/cpu/filter_order.hpp"

#include <cstring>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t block = 16;  // channels

bool is_in_blocks(const Tensor& tensor) {
  const dnnl::memory::desc desc = desc_of(tensor);
  const BlockedOrder order = blocked_order(desc);
  const Shape& shape = tensor.shape();
  const std::int64_t positions = shape[2] * shape[3];
  return order.sizes.size() == 2 && order.sizes[0] == block && order.axes[0] == 1 &&
         order.sizes[1] == block && order.axes[1] == 0 &&
         order.strides[0] == shape[1] * positions * block &&
         order.strides[1] == positions * block * block &&
         order.strides[2] == shape[3] * block * block && order.strides[3] == block * block;
}

using Row = float __attribute__((vector_size(block * sizeof(float))));

// Exchanges the off-diagonal quarters of all squares of 2 * distance rows and columns.
template <int distance>
[[gnu::always_inline]] inline void exchange(Row* rows) {
  constexpr auto left = [](int j) { return j & distance ? block + j - distance : j; };
  constexpr auto right = [](int j) { return j & distance ? block + j : j + distance; };
  for (int i = 0; i < block; ++i) {
    if (i & distance) continue;
    const Row a = rows[i], b = rows[i + distance];
    rows[i] = __builtin_shufflevector(a, b, left(0), left(1), left(2), left(3), left(4), left(5),
                                      left(6), left(7), left(8), left(9), left(10), left(11),
                                      left(12), left(13), left(14), left(15));
    rows[i + distance] = __builtin_shufflevector(
        a, b, right(0), right(1), right(2), right(3), right(4), right(5), right(6), right(7),
        right(8), right(9), right(10), right(11), right(12), right(13), right(14), right(15));
  }
}

[[gnu::always_inline]] inline void transpose(Row* rows) {
  exchange<1>(rows);
  exchange<2>(rows);
  exchange<4>(rows);
  exchange<8>(rows);
}

// In plain order the elements of an input channel at all positions are contiguous, in blocks those
// of all channels at a position: where column `e` of 16 plain rows is in a block.
[[gnu::always_inline]] inline std::int64_t place_in_block(std::int64_t e, std::int64_t positions) {
  return (e % positions * block + e / positions) * block;
}

// One block of 16 x 16 channels; in plain order output channels are `stride` elements apart.
TASUKI_VECTORIZE void to_block(const float* plain, float* blocked, std::int64_t stride,
                               std::int64_t positions) {
  for (std::int64_t first = 0; first < block * positions; first += block) {
    Row rows[block];
    for (int o = 0; o < block; ++o) std::memcpy(&rows[o], plain + o * stride + first, sizeof(Row));
    transpose(rows);
    for (int j = 0; j < block; ++j)
      std::memcpy(blocked + place_in_block(first + j, positions), &rows[j], sizeof(Row));
  }
}

TASUKI_VECTORIZE void from_block(const float* blocked, float* plain, std::int64_t stride,
                                 std::int64_t positions, bool accumulate) {
  for (std::int64_t first = 0; first < block * positions; first += block) {
    Row rows[block];
    for (int j = 0; j < block; ++j)
      std::memcpy(&rows[j], blocked + place_in_block(first + j, positions), sizeof(Row));
    transpose(rows);
    for (int o = 0; o < block; ++o) {
      float* const to = plain + o * stride + first;
      if (accumulate) {
        Row before;
        std::memcpy(&before, to, sizeof(Row));
        rows[o] += before;
      }
      std::memcpy(to, &rows[o], sizeof(Row));
    }
  }
}

}  // namespace

bool rearrange_filters(const Tensor& destination, const Tensor& source, bool accumulate) {
  const Shape& shape = source.shape();
  if (destination.dtype() != DType::float32 || source.dtype() != DType::float32 ||
      shape.rank() != 4 || shape[0] % block != 0 || shape[1] % block != 0)
    return false;
  const bool to_blocks = source.is_plain() && !accumulate;
  if (to_blocks ? !is_in_blocks(destination) : !destination.is_plain() || !is_in_blocks(source))
    return false;
  const std::int64_t positions = shape[2] * shape[3], stride = shape[1] * positions;
  const std::int64_t across = shape[1] / block, size = block * block * positions;
  const auto* const from = static_cast<const float*>(source.raw());
  auto* const to = static_cast<float*>(destination.raw());
  parallel_for(shape[0] / block * across, std::max<std::int64_t>(elementwise_grain / size, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t plain =
                       i / across * block * stride + i % across * block * positions;
                   if (to_blocks)
                     to_block(from + plain, to + i * size, stride, positions);
                   else
                     from_block(from + i * size, to + plain, stride, positions, accumulate);
                 }
               });
  return true;
}

}  // namespace tasuki
