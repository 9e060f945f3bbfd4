// The clock (step_clock.hpp) of a thread's steps: code in the middle of a step reports a moment
// without knowing the clock.
#pragma once

#include "tensor/step_clock.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// A step, whose forward pass begins. While it lives, note_moment() in its thread notes moments on
// `clock`. An undefined clock measures nothing.
class ClockScope {
 public:
  explicit ClockScope(Tensor clock);
  ~ClockScope();
  ClockScope(const ClockScope&) = delete;
  ClockScope& operator=(const ClockScope&) = delete;

 private:
  Tensor clock_;
  const Tensor* previous_;
};

// Queues work for the clock's device: notes the time when the device gets there. Does nothing
// outside of a ClockScope.
void note_moment(StepClock::Moment moment);

}  // namespace tasuki
