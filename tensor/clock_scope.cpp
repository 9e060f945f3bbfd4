#include "tensor/clock_scope.hpp"

#include <utility>

#include "tensor/backend.hpp"

namespace tasuki {
namespace {

thread_local const Tensor* current_clock = nullptr;

}  // namespace

ClockScope::ClockScope(Tensor clock)
    : clock_(std::move(clock)), previous_(std::exchange(current_clock, &clock_)) {
  note_moment(StepClock::Moment::forward);
}

ClockScope::~ClockScope() {
  current_clock = previous_;
}

void note_moment(StepClock::Moment moment) {
  if (current_clock == nullptr || !*current_clock) return;
  backend(current_clock->device()).stamp(*current_clock, moment);
}

}  // namespace tasuki
