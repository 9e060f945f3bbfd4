#include "core/polite_wait.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace tasuki {
namespace {

constexpr std::chrono::microseconds longest_nap{200}, longest_unhurried_nap{2000};

thread_local const WaitCheck* present_check = nullptr;
thread_local int unhurried = 0;  // scopes
thread_local const std::atomic<bool>* stays_awake = nullptr;

}  // namespace

WaitCheck::WaitCheck(std::function<void()> check)
    : check_(std::move(check)), before_(std::exchange(present_check, this)) {}

WaitCheck::~WaitCheck() {
  present_check = before_;
}

bool WaitCheck::run() {
  if (present_check == nullptr) return false;
  present_check->check_();
  return true;
}

UnhurriedWaits::UnhurriedWaits() {
  ++unhurried;
}

UnhurriedWaits::~UnhurriedWaits() {
  --unhurried;
}

WaitsWithoutSleep::WaitsWithoutSleep(const std::atomic<bool>& flag) {
  stays_awake = &flag;
}
WaitsWithoutSleep::~WaitsWithoutSleep() {
  stays_awake = nullptr;
}

void PoliteWait::pause() {
  using std::chrono::steady_clock;
  constexpr int spins = 32;
  constexpr std::chrono::milliseconds awake{1};

  // The first few calls do nothing, because often the event has already happened.
  if (++pauses_ <= spins) return;
  const auto now = steady_clock::now();
  if (start_ == steady_clock::time_point{}) start_ = now;
  if (now - start_ < awake) {
    sched_yield();
    return;
  }
  if (stays_awake != nullptr && *stays_awake) {
    WaitCheck::run();
    start_ = now;
    return;
  }
  WaitCheck::run();
  std::this_thread::sleep_for(nap_);
  nap_ = std::min(nap_ * 2, unhurried > 0 ? longest_unhurried_nap : longest_nap);
}

}  // namespace tasuki
