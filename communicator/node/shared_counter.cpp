#include "communicator/node/shared_counter.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <limits>

#include "core/polite_wait.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tasuki {
namespace {

void spin_once() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Returns after at most a second, or 50 ms if callers then look for ranks that have left.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, bool is_checked) {
  const timespec longest{is_checked ? 0 : 1, is_checked ? 50'000'000 : 0};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &longest, nullptr, 0);
}

// RAII: counts this process among those that sleep.
class Sleeper {
 public:
  explicit Sleeper(std::atomic<std::uint32_t>& sleepers) : sleepers_(sleepers) { ++sleepers_; }
  ~Sleeper() { --sleepers_; }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  std::atomic<std::uint32_t>& sleepers_;
};

void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace

void SharedCounter::set(std::uint32_t value) {
  value_.store(value);
  if (sleepers_.load() != 0) wake_all(value_);
}

void SharedCounter::wait_for(std::uint32_t value) {
  constexpr int spins = 50, yields = 500;
  for (int turn = 0; turn < spins; ++turn) {
    if (has_reached(value)) return;
    spin_once();
  }
  for (int turn = 0; turn < yields; ++turn) {
    if (has_reached(value)) return;
    sched_yield();
  }
  // Announces the sleeper before the last check, so that a set() is either seen here or sees the
  // sleeper.
  const Sleeper announced(sleepers_);
  for (;;) {
    const std::uint32_t seen = value_.load();
    if (static_cast<std::int32_t>(seen - value) >= 0) break;
    sleep_while(value_, seen, WaitCheck::run());
  }
}

std::uint32_t SharedBarrier::arrive(std::uint32_t size) {
  const std::uint32_t next = generation_.value() + 1;
  if (arrived_.fetch_add(1) + 1 == size) {
    arrived_.store(0);
    generation_.set(next);
  }
  return next;
}

}  // namespace tasuki
