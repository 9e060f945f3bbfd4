// Decides whether and when to restart a job that ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tasuki::supervisor {

// Whether another start would end in the same way: after success (0), a stop on request (79),
// errors in flags, data, files or settings (64, 65, 66, 78), or output that cannot be written (73).
bool is_final(int exit_code);

// Whether mpirun or srun ends with this code before it has started a rank, because of its flags or
// the slots: another start would fail in the same way. After ranks have started, the code may mean
// anything.
bool is_launchers_refusal(int exit_code);

// Whether mpirun, when its daemon did not start on a host, ends with this code because the host has
// no such program (a shell's exit codes): another start would fail in the same way. Otherwise the
// host may be down.
bool is_daemon_missing(int exit_code);

// Counts the starts since a job last made progress.
class Restarts {
 public:
  explicit Restarts(std::int64_t most) : most_(most) {}

  // The wait before the next start: 1, 2, 4, ... at most 60 s; nothing: give up. If the failed
  // start had made progress, counting restarts, and the first wait is 0.
  std::optional<std::chrono::seconds> next(bool has_progressed);
  std::chrono::seconds wait() const;  // the latest answer
  std::int64_t count() const { return count_; }
  std::int64_t most() const { return most_; }

 private:
  std::int64_t most_, count_ = 0;
  bool is_at_once_ = false;
};

}  // namespace tasuki::supervisor
