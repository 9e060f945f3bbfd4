// DeviceClock: the time of training steps on one device, by that device's own clock.
#pragma once

#include <cstdint>

#include "core/stopwatch.hpp"
#include "tensor/step_clock.hpp"
#include "tensor/tensor.hpp"
#include "training/step_times.hpp"

namespace tasuki {

class DeviceClock {
 public:
  explicit DeviceClock(Device device);

  // Call it before the next step's batch is read. What the device did since the last step is not
  // part of any step: on a CPU all of that time, on a GPU, which may still be busy with that step,
  // only a pause of more than a millisecond.
  void resume();
  // Queues work that notes the time when the device gets there.
  void note(StepClock::Moment moment) const;
  // For a ClockScope.
  const Tensor& tensor() const { return clock_; }
  void step_done();
  // Of all steps so far; waits for the device.
  StepTimes times() const;

 private:
  Tensor clock_;
  std::int64_t steps_ = 0;
  Stopwatch since_step_;
};

}  // namespace tasuki
