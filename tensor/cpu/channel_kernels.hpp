// Passes over activations that treat each channel differently, whatever their order in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/tensor.hpp"

namespace tasuki {

// Channels in memory: items, then groups of channels, then rows (pixels), the group's channels
// innermost. Plain N x C x H x W has groups of one channel, N x C one group of all, blocked orders
// groups of 4, 8 or 16 (the last one padded).
struct ChannelOrder {
  std::int64_t items = 0, groups = 0, rows = 0, lanes = 0;

  // Of N x C or N x C x H x W; empty for other orders.
  static std::optional<ChannelOrder> of(const Tensor& x);
  std::int64_t channels() const { return groups * lanes; }  // padding included
};

// Sums of each channel's values and of their squares, in double; the bits do not depend on the
// number of threads.
struct ChannelSums {
  std::vector<double> values, squares;
};
// Deviations from the first of 64 rows are summed in float32, and these sums in double, so that
// neither a mean far from zero nor an outlier costs digits of the variance.
ChannelSums channel_sums(const float* x, const ChannelOrder& order);

// y += factors[c] * (x - means[c]) + shifts[c]; numbers for all channels() of the order.
struct ChannelTerm {
  const float *factors, *means, *shifts;
};
void add_scaled_channels(float* y, const float* x, const ChannelOrder& order,
                         const ChannelTerm& term);

}  // namespace tasuki
