#include "optimizer/double_buffer.hpp"

#include <utility>

namespace tasuki {

DoubleBuffer::DoubleBuffer(ParameterArena& arena, Communicator& own, Communicator& communicator)
    : GradientExchange(ExchangeMode::double_buffered, {{0, arena.gradients().count()}}, own),
      arena_(arena),
      own_(own),
      communicator_(communicator),
      background_(own_.supports(Background::thread) ? Background::thread : Background::slices) {
  arena_.swap_gradients(arena_.make_gradients(&own_));
  other_ = arena_.make_gradients(&own_);
}

void DoubleBuffer::advance() {
  if (under_way_) under_way_->advance();
}

void DoubleBuffer::leave() {
  under_way_.reset();
  arena_.swap_gradients(arena_.make_gradients(&communicator_));
}

// The two arrays take turns.
GradientView DoubleBuffer::view() {
  GradientView all = arena_.gradient_view();
  all.wire_scale_hint = static_cast<double>(sums_.examples.value_or(0));
  all.is_agreed = exchanges_ >= 2;
  ++exchanges_;
  return all;
}

std::optional<GradientExchange::Sums> DoubleBuffer::wait() {
  if (!under_way_) return std::nullopt;
  std::exchange(under_way_, nullptr)->wait();
  return sums_;
}

std::optional<GradientExchange::Sums> DoubleBuffer::finish() {
  const std::optional<Sums> before = wait();
  sums_ = {next_.global};
  const GradientView gradients = view();
  other_ = arena_.swap_gradients(other_);
  under_way_ = own_.start_sum_gradients(gradients, background_);
  return before;
}

// By a copy: the model may have changed, so the arena's parameters may be gone.
std::optional<GradientExchange::Sums> DoubleBuffer::flush() {
  const std::optional<Sums> sums = wait();
  if (!sums) return sums;
  arena_.gradients().copy_from(other_);
  other_.slice(arena_.update_count(), other_.count()).fill(0);
  return sums;
}

}  // namespace tasuki
