// PoliteWait: polls for another process without taking its core.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace tasuki {

// While it exists, waits of this thread for other processes that take long (PoliteWait, and
// SharedCounter in communicator/node) call `check` again and again. It may end the wait by
// throwing.
class WaitCheck {
 public:
  explicit WaitCheck(std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

  // Calls the check of this thread's latest object, if there is one; returns whether there is.
  static bool run();

 private:
  std::function<void()> check_;
  const WaitCheck* before_;
};

// While it exists, long waits of this thread sleep for up to two milliseconds at a time. It is for
// results that are not needed soon: each look takes time from ranks that compute.
class UnhurriedWaits {
 public:
  UnhurriedWaits();
  ~UnhurriedWaits();
  UnhurriedWaits(const UnhurriedWaits&) = delete;
  UnhurriedWaits& operator=(const UnhurriedWaits&) = delete;
};

// While it exists and the flag is set, waits of this thread yield and do not sleep. It is for a
// thread for which another one of the process waits, whose core is free: MPI moves data only while
// it is called, so a sleep between two looks delays the next piece of a message.
class WaitsWithoutSleep {
 public:
  // `flag` outlives this object.
  explicit WaitsWithoutSleep(const std::atomic<bool>& flag);
  ~WaitsWithoutSleep();
  WaitsWithoutSleep(const WaitsWithoutSleep&) = delete;
  WaitsWithoutSleep& operator=(const WaitsWithoutSleep&) = delete;
};

// One wait: `while (!done()) waiting.pause();`. The first pauses return at once; later ones yield
// the core to any rank that is ready to run (at no cost if there is none). After about a
// millisecond they sleep, for up to 200 microseconds (UnhurriedWaits: more), so that long waits
// leave the cores to ranks that compute.
class PoliteWait {
 public:
  void pause();

 private:
  int pauses_ = 0;
  std::chrono::steady_clock::time_point start_{};
  std::chrono::microseconds nap_{20};
};

}  // namespace tasuki
