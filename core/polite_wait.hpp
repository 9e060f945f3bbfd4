// PoliteWait: polls for another process without taking its core.
#pragma once

#include <chrono>

namespace tasuki {

// One wait: `while (!done()) waiting.pause();`. The first pauses return at once; later ones yield
// the core to any rank that is ready to run (at no cost if there is none). After about a
// millisecond they sleep, for up to 200 microseconds, so that long waits leave the cores to ranks
// that compute.
class PoliteWait {
 public:
  void pause();

 private:
  int pauses_ = 0;
  std::chrono::steady_clock::time_point start_{};
  std::chrono::microseconds nap_{20};
};

}  // namespace tasuki
