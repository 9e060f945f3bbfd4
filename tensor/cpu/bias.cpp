// Gradients of biases: sums of an activation's gradient over all but the channels.
#include <vector>

#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/interleaved.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

// Neighbouring channels in a blocked layout (nChw16c: 16); 0 for layouts of other kinds.
std::int64_t channel_block(const Tensor& x) {
  if (x.is_plain() || x.shape().rank() != 4) return 0;
  const dnnl::memory::desc desc = desc_of(x);
  const BlockedOrder order = blocked_order(desc);
  const bool by_channel = order.sizes.size() == 1 && order.axes[0] == 1;
  return by_channel && order.strides[3] == order.sizes[0] ? order.sizes[0] : 0;
}

// Calls add(address, length) for `length` rows of `columns` floats at a time, multiples of `unit`
// rows but for the last.
template <class Add>
void for_rows(const FloatElements& elements, std::int64_t begin, std::int64_t rows,
              std::int64_t columns, std::int64_t unit, const Add& add) {
  if (elements.is_float32()) return add(elements.read(begin * columns, 0, nullptr), rows);
  const std::int64_t most = std::max<std::int64_t>(FloatElements::block / columns / unit, 1) * unit;
  std::vector<float> block(static_cast<std::size_t>(most * columns));
  for (std::int64_t row = 0; row < rows; row += most) {
    const std::int64_t length = std::min(most, rows - row);
    add(elements.read((begin + row) * columns, length * columns, block.data()), length);
  }
}

constexpr std::int64_t added_at_once = 4;  // rows, by column_sum_kernel

}  // namespace

void CpuBackend::backward_bias(const Tensor& dy, const Tensor& db, bool accumulate) {
  const Shape& shape = dy.shape();
  TASUKI_CHECK(shape.rank() >= 2 && db.shape() == Shape{shape[1]},
               "a gradient of {} does not fit a bias of {}", shape.text(), db.shape().text());
  if (!accumulate) db.fill(0);
  if (dy.count() == 0) return;
  float* const sums = db.data<float>();
  const std::int64_t items = shape[0], channels = shape[1];
  const std::int64_t pixels = shape.count_per_item() / channels;

  if (const std::int64_t block = channel_block(dy); block > 0) {
    const std::int64_t blocks = (channels + block - 1) / block;
    const FloatElements from(dy);
    std::vector<float> padded(static_cast<std::size_t>(blocks * block));
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < items; ++i)
        for (std::int64_t b = begin; b < end; ++b)
          for_rows(from, (i * blocks + b) * pixels, pixels, block, added_at_once,
                   [&](const float* rows, std::int64_t count) {
                     column_sum_kernel(rows, padded.data() + b * block, count, block);
                   });
    });
    return accumulate_kernel(sums, padded.data(), 1, channels);
  }
  // Interleaved images count as one: they fill a row for each channel.
  const bool interleaved = is_interleaved(dy);
  const Tensor rows = interleaved ? dy : dy.plain();
  const FloatElements from(rows);
  const std::int64_t length = interleaved ? pixels * interleave : pixels;
  if (length == 1)
    return for_rows(from, 0, items, channels, added_at_once,
                    [&](const float* values, std::int64_t count) {
                      column_sum_kernel(values, sums, count, channels);
                    });
  const std::int64_t blocks = stored_count(rows) / (channels * length);
  parallel_for(channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      float* to = sums + begin;
      for_rows(from, i * channels + begin, end - begin, length, 1,
               [&](const float* values, std::int64_t count) {
                 row_sum_kernel(values, to, count, length);
                 to += count;
               });
    }
  });
}

}  // namespace tasuki
