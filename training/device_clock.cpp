#include "training/device_clock.hpp"

#include <cstring>

#include "tensor/backend.hpp"

namespace tasuki {

DeviceClock::DeviceClock(Device device)
    : clock_(Tensor::zeros({step_clock_values}, DType::float64, device)) {}

void DeviceClock::resume() {
  constexpr double longest_wait = 1e-3;  // seconds that the host may take between two steps
  const bool has_paused = steps_ == 0 || since_step_.lap() > longest_wait;
  if (clock_.device().is_cpu() || has_paused) note(StepClock::Moment::resume);
}

void DeviceClock::note(StepClock::Moment moment) const {
  backend(clock_.device()).stamp(clock_, moment);
}

void DeviceClock::step_done() {
  ++steps_;
  since_step_.lap();
}

StepTimes DeviceClock::times() const {
  const Tensor host = clock_.to(Device::cpu());
  StepClock read{};
  std::memcpy(&read, host.raw(), sizeof(read));
  const auto seconds = [&](StepPart part) { return read.seconds[static_cast<std::size_t>(part)]; };
  return {.steps = steps_,
          .input = seconds(StepPart::input),
          .forward = seconds(StepPart::forward),
          .backward = seconds(StepPart::backward),
          .exchange = seconds(StepPart::exchange),
          .update = seconds(StepPart::update)};
}

}  // namespace tasuki
