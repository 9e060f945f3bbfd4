// Gradients of biases: sums of an activation's gradient over all but the channels.
#include <vector>

#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"
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
    const auto* const from = static_cast<const float*>(dy.raw());
    std::vector<float> padded(static_cast<std::size_t>(blocks * block));
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < items; ++i)
        for (std::int64_t b = begin; b < end; ++b)
          column_sum_kernel(from + (i * blocks + b) * pixels * block, padded.data() + b * block,
                            pixels, block);
    });
    return accumulate_kernel(sums, padded.data(), 1, channels);
  }
  // Interleaved images count as one: they fill a row for each channel.
  const bool interleaved = is_interleaved(dy);
  const Tensor rows = interleaved ? dy : dy.plain();
  const auto* const from = static_cast<const float*>(rows.raw());
  const std::int64_t length = interleaved ? pixels * interleave : pixels;
  if (length == 1) return column_sum_kernel(from, sums, items, channels);
  const std::int64_t blocks = stored_count(rows) / (channels * length);
  parallel_for(channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < blocks; ++i)
      row_sum_kernel(from + (i * channels + begin) * length, sums + begin, end - begin, length);
  });
}

}  // namespace tasuki
