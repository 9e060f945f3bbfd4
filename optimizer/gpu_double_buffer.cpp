#include "optimizer/gpu_double_buffer.hpp"

#include <fmt/core.h>

#include <utility>

#include "communicator/algorithms/wire_format.hpp"
#include "tensor/recorder.hpp"

namespace tasuki {

GpuDoubleBuffer::GpuDoubleBuffer(ParameterArena& arena, Communicator& own)
    : GradientExchange(ExchangeMode::double_buffered, {{0, arena.gradients().count()}}, own),
      arena_(arena),
      own_(own) {
  const Tensor& gradients = arena_.gradients();
  waiting_ = {own_.allocate(gradients.bytes(), gradients.device()), 0, gradients.shape(),
              gradients.dtype()};
  spare_ = Tensor::empty(gradients.shape(), gradients.dtype(), gradients.device());
}

std::int64_t GpuDoubleBuffer::expect(std::int64_t examples) {
  next_examples_ = examples;
  return holds_ ? examples_ : examples;
}

void GpuDoubleBuffer::prepare() {
  if (!holds_ || is_summed_ || under_way_) return;
  GradientView waiting = arena_.gradient_view();
  waiting.arena = waiting_;
  waiting.wire_scale_hint = static_cast<double>(examples_);
  is_recorded_ = current_recorder() != nullptr && current_recorder()->is_recording();
  under_way_ = own_.start_sum_gradients(waiting);
}

std::string GpuDoubleBuffer::kind_of_step() const {
  const WireFormat wire =
      wire_format(own_.options().wire_dtype, own_.size(), static_cast<double>(examples_));
  return fmt::format("sums times {}", wire.factor);
}

void GpuDoubleBuffer::begin(const Examples& examples) {
  if (examples.global && *examples.global != next_examples_) {
    refuse_recording("updates divide by numbers of examples that are unlike those of the batches");
    next_examples_ = *examples.global;
  }
}

// A recorded sum has not run, so it is still to be done.
void GpuDoubleBuffer::give_up() {
  if (!under_way_) return;
  under_way_.reset();
  is_summed_ = !is_recorded_;
}

void GpuDoubleBuffer::sum_waiting() {
  prepare();  // does nothing if the sum has started
  if (!under_way_) return;
  std::exchange(under_way_, nullptr)->wait();
  has_travelled_ = true;
}

// By copies, because recorded steps know the arrays by their places.
std::optional<GradientExchange::Sums> GpuDoubleBuffer::finish() {
  std::optional<Sums> before;
  if (holds_) {
    before = {examples_};
    sum_waiting();
    spare_.copy_from(waiting_);
  }
  const Tensor& gradients = arena_.gradients();
  waiting_.copy_from(gradients);
  if (holds_) gradients.copy_from(spare_);
  holds_ = true;
  is_summed_ = false;
  kept_.request();
  return before;
}

std::optional<GradientExchange::Sums> GpuDoubleBuffer::flush() {
  if (!holds_) return std::nullopt;
  sum_waiting();
  arena_.gradients().copy_from(waiting_);
  holds_ = is_summed_ = false;
  return Sums{examples_};
}

}  // namespace tasuki
