// Which clock (step_clock.hpp) the steps of a thread are noted on: code in the middle of a step
// says that it has come to a moment, and need not know of any clock.
#pragma once

#include "tasuki/tensor/step_clock.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// While it lives, note_moment() of its thread notes moments on `clock`.
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

// Work for the clock's device: notes when it gets there. Does nothing outside of a StepClockScope.
void note_moment(StepMoment moment);

}  // namespace tasuki
