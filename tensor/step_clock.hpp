// The time of steps by a device's own clock: the host need not wait for the device, and it does not
// matter how far ahead it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tasuki {

// The parts that a step consists of. A clock adds up the time of each over all steps.
enum class StepPart : std::uint8_t {
  input,  // waiting for the next batch (a GPU: for the host)
  forward,
  backward,
  exchange,  // waiting for gradients that are exchanged, slower devices included
  update,
};
constexpr std::size_t step_parts = 5;
constexpr std::array<const char*, step_parts> step_part_names = {"input", "forward", "backward",
                                                                 "exchange", "update"};

// Stored on a device in a tensor of as many float64 values, initially zeros.
struct StepClock {
  // A part begins, which ends the part before it.
  enum class Moment : std::uint8_t {
    resume,  // the device continues with steps, after other work; its next part is input
    forward,
    backward,
    exchange,
    update,
    end,  // of a step; its next part is input
  };

  double since;                // when the part began, in seconds; 0: it never did
  double part;                 // that lasts, a StepPart
  double seconds[step_parts];  // NOLINT(modernize-avoid-c-arrays): CUDA

  constexpr void advance(Moment moment, double now) {
    if (moment != Moment::resume && since > 0) seconds[static_cast<int>(part)] += now - since;
    since = now;
    switch (moment) {
      case Moment::resume:
      case Moment::end:
        part = static_cast<double>(StepPart::input);
        break;
      case Moment::forward:
        part = static_cast<double>(StepPart::forward);
        break;
      case Moment::backward:
        part = static_cast<double>(StepPart::backward);
        break;
      case Moment::exchange:
        part = static_cast<double>(StepPart::exchange);
        break;
      case Moment::update:
        part = static_cast<double>(StepPart::update);
        break;
    }
  }
};
constexpr std::int64_t step_clock_values = sizeof(StepClock) / sizeof(double);

}  // namespace tasuki
