#include "tasuki/optimizer/double_buffer.hpp"

#include <utility>

namespace tasuki {

DoubleBuffer::DoubleBuffer(ParameterArena& arena, const Communicator& communicator)
    : arena_(arena),
      communicator_(communicator.split(0, communicator.rank())),
      background_(communicator_->supports(Background::thread) ? Background::thread
                                                              : Background::slices) {
  const Tensor& gradients = arena_.gradients();
  const auto allocate = [&] {
    return Tensor(communicator_->allocate(gradients.bytes()), 0, gradients.shape(),
                  gradients.dtype());
  };
  arena_.swap_gradients(allocate());
  other_ = allocate();
}

// The two arrays take turns.
GradientView DoubleBuffer::view(std::optional<std::int64_t> examples) {
  GradientView all = arena_.gradient_view();
  all.wire_scale_hint = static_cast<double>(examples.value_or(0));
  all.is_agreed = exchanges_ >= 2;
  ++exchanges_;
  return all;
}

std::optional<DoubleBuffer::Sums> DoubleBuffer::wait() {
  if (!under_way_) return std::nullopt;
  std::exchange(under_way_, nullptr)->wait();
  return sums_;
}

std::optional<DoubleBuffer::Sums> DoubleBuffer::exchange(std::optional<std::int64_t> examples) {
  const std::optional<Sums> before = wait();
  const GradientView gradients = view(examples);
  other_ = arena_.swap_gradients(other_);
  sums_ = {examples};
  under_way_ = communicator_->start_sum_gradients(gradients, background_);
  return before;
}

// By a copy: the model may have changed, so the arena's parameters may be gone.
std::optional<DoubleBuffer::Sums> DoubleBuffer::take() {
  const std::optional<Sums> sums = wait();
  if (!sums) return sums;
  arena_.gradients().copy_from(other_);
  other_.slice(arena_.update_count(), other_.count()).fill(0);
  return sums;
}

}  // namespace tasuki
