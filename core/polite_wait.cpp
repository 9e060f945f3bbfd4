#include "core/polite_wait.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tasuki {

void PoliteWait::pause() {
  using std::chrono::steady_clock;
  constexpr int spins = 32;
  constexpr std::chrono::milliseconds awake{1};
  constexpr std::chrono::microseconds longest_nap{200};

  // The first few calls do nothing, because often the event has already happened.
  if (++pauses_ <= spins) return;
  const auto now = steady_clock::now();
  if (start_ == steady_clock::time_point{}) start_ = now;
  if (now - start_ < awake) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(nap_);
  nap_ = std::min(nap_ * 2, longest_nap);
}

}  // namespace tasuki
