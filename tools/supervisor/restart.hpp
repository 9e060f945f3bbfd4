// Whether a job that ended is started again, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tasuki::supervisor {

// Whether another start would end alike: after success (0), a stop on request (79), and errors in
// flags, data, files or settings (64, 65, 66, 78), or of output that cannot be written (73).
bool is_final(int exit_code);

// Whether mpirun or srun ends like this before it has started a rank, because of its flags or the
// slots: another start would end alike. Afterwards the code may mean anything.
bool is_launchers_refusal(int exit_code);

// Whether mpirun, whose daemon did not start on a host, ends like this because the host has no such
// program (a shell's exit codes): another start would end alike. Otherwise the host may be away.
bool is_daemon_missing(int exit_code);

// Counts the starts since a job last made progress.
class Restarts {
 public:
  explicit Restarts(std::int64_t most) : most_(most) {}

  // How long to wait before the next start: 1, 2, 4, ... at most 60 s; nothing: give up. Where the
  // start that failed had made progress, counting begins anew, and its first wait is none.
  std::optional<std::chrono::seconds> next(bool has_progressed);
  std::chrono::seconds wait() const;  // the latest answer
  std::int64_t count() const { return count_; }
  std::int64_t most() const { return most_; }

 private:
  std::int64_t most_, count_ = 0;
  bool is_at_once_ = false;
};

}  // namespace tasuki::supervisor
