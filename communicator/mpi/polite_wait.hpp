// Waiting for another process without taking the processor from it.
#pragma once

#include <chrono>

namespace tasuki {

// One wait, as a loop `while (!done()) waiting.pause();`. A pause first gives the core to any rank
// that is ready to run (which costs nothing when there is none), and after a millisecond or so of
// that sleeps, longer and longer up to 200 microseconds: long waits (a slower rank, a large
// transfer) leave the cores to those who compute.
class PoliteWait {
 public:
  void pause();

 private:
  int pauses_ = 0;
  std::chrono::steady_clock::time_point start_{};
  std::chrono::microseconds nap_{20};
};

}  // namespace tasuki
