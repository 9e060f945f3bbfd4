// Element-wise loops over operands that are broadcast.
#pragma once

#include <array>
#include <vector>

#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/strided.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

// An operand of such a loop, read a block at a time.
class BlockOperand {
 public:
  // At most so many elements a block: a few blocks fit in the first cache.
  static constexpr std::int64_t most = FloatElements::block;

  // `operand` is plain; one that is repeated is float32.
  BlockOperand(const Shape& shape, const Tensor& operand)
      : loop_(shape, {broadcast_strides(operand.shape(), shape)}),
        elements_(operand),
        values_(static_cast<const float*>(operand.raw())),
        is_plain_(loop_.is_plain(0)) {}

  // Elements [begin, begin + count) of the broadcast operand: where they lie, or copied to `block`.
  const float* read(std::int64_t begin, std::int64_t count, float* block) const {
    if (is_plain_) return elements_.read(begin, count, block);
    const StridedPosition<1> position(loop_, begin);
    if (loop_.strides[0][loop_.rank - 1] == 1 && position.run() >= count)
      return values_ + position.offset(0);
    gather_elements(loop_, values_, begin, count, block);
    return block;
  }

 private:
  StridedLoop<1> loop_;
  FloatElements elements_;
  const float* values_;
  bool is_plain_;
};

// Calls kernel(operand blocks..., begin, count) for all blocks of the result.
template <std::size_t operands, class Kernel>
void for_blocks(const std::array<BlockOperand, operands>& inputs, std::int64_t count,
                const Kernel& kernel) {
  parallel_for(count, elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    float blocks[operands][BlockOperand::most];
    std::array<const float*, operands> values;
    while (begin < end) {
      const std::int64_t length = std::min(BlockOperand::most, end - begin);
      for (std::size_t i = 0; i < operands; ++i)
        values[i] = inputs[i].read(begin, length, blocks[i]);
      kernel(values, begin, length);
      begin += length;
    }
  });
}

}  // namespace tasuki
