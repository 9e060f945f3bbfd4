// The clock (step_clock.hpp) of a thread's steps: code in the middle of a step reports a moment
// without knowing the clock.
#pragma once

#include "tasuki/tensor/step_clock.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// While it lives, note_moment() in its thread notes moments on `clock`.
class StepClockScope {
 public:
  explicit StepClockScope(Tensor clock);
  ~StepClockScope();
  StepClockScope(const StepClockScope&) = delete;
  StepClockScope& operator=(const StepClockScope&) = delete;

 private:
  Tensor clock_;
  const Tensor* previous_;
};

// Queues work for the clock's device: notes the time when the device gets there. Does nothing
// outside of a StepClockScope.
void note_moment(StepMoment moment);

// Does the work of a step and notes on `clock` when it begins and ends. An undefined clock measures
// nothing.
template <class Work>
void time_step(const Tensor& clock, const Work& work) {
  if (!clock) return work();
  const StepClockScope scope(clock);
  note_moment(StepMoment::begin);
  work();
  note_moment(StepMoment::end);
}

}  // namespace tasuki
