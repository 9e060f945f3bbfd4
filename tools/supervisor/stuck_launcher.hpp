// A launcher that does not end although its ranks have.
//
// Open MPI 4.1's mpirun can wait for a lock that nobody releases (in PMIx_server_finalize), most
// often if a rank was ended while it started.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace tasuki::supervisor {

class StuckLauncher {
 public:
  using Clock = std::chrono::steady_clock;

  // How long a launcher may take to end.
  static constexpr std::chrono::seconds limit{5};

  explicit StuckLauncher(pid_t launcher) : launcher_(launcher) {}

  // To be called about once a second. True if for longer than `limit` the launcher has had no
  // living descendants and no handler of SIGUSR1, which it had before, though standard output had
  // room for what it may still have to write. A launcher that is stopped or debugged is not stuck.
  bool is_stuck(Clock::time_point now);
  // The time until now does not count.
  void forget() { ending_since_.reset(); }

 private:
  bool is_ending();

  pid_t launcher_;
  bool had_handler_ = false;
  std::optional<Clock::time_point> ending_since_;
};

}  // namespace tasuki::supervisor
