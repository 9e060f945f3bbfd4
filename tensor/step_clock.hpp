// The time of steps by a device's own clock: the host need not wait for the device, and it does not
// matter how far ahead it is.
#pragma once

#include <cstdint>

namespace tasuki {

// In seconds; stored on a device in a tensor of as many float64 values, initially zeros.
struct StepClock {
  enum class Moment : std::uint8_t {
    resume,     // the device continues with steps, after other work
    begin,      // it has what it needs from the host
    exchange,   // gradients are about to be exchanged
    exchanged,  // they have been exchanged
    end,
  };

  double ended;           // the last step; or resumed
  double begun;           // this step
  double exchange_begun;  // of this step
  double exchanged;       // so far in this step
  // Sums over steps: idle between two of them, and the parts of them.
  double input, compute, communication;

  constexpr void advance(Moment moment, double now) {
    switch (moment) {
      case Moment::resume:
        ended = now;
        break;
      case Moment::begin:
        if (ended > 0) input += now - ended;
        begun = now;
        exchanged = 0;
        break;
      case Moment::exchange:
        exchange_begun = now;
        break;
      case Moment::exchanged:
        exchanged += now - exchange_begun;
        break;
      case Moment::end:
        communication += exchanged;
        compute += now - begun - exchanged;
        ended = now;
        break;
    }
  }
};
constexpr std::int64_t step_clock_values = sizeof(StepClock) / sizeof(double);

}  // namespace tasuki
