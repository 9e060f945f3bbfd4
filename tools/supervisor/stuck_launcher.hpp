// A launcher that does not end although its ranks have.
//
// Open MPI 4.1's mpirun sometimes deadlocks when it ends (on a mutex in PMIx_server_finalize), most
// often if a rank was ended while it started.
#pragma once

#include <sys/types.h>

namespace tasuki::supervisor {

class StuckLauncher {
 public:
  // How many looks, about one a second, a launcher has to end.
  static constexpr int limit = 5;

  explicit StuckLauncher(pid_t launcher) : launcher_(launcher) {}

  // Notes whether Open MPI's launcher is ready for ranks, which it is while it handles SIGUSR1. To
  // be called several times a second until it was: the ranks may end soon. Returns whether it was.
  bool note_ready();
  // To be called about once a second; `may_print`: whether nothing keeps it from printing the rest.
  // True if in more than `limit` calls in a row a launcher that was ready no longer handles
  // SIGUSR1, sleeps, and has no living descendant: no rank, and no ssh to another machine. A
  // launcher that is stopped, debugged, or at work is not stuck.
  bool is_stuck(bool may_print);

 private:
  bool is_ending() const;

  pid_t launcher_;
  bool was_ready_ = false;
  int looks_ = 0;  // in a row, at a launcher that is ending
};

}  // namespace tasuki::supervisor
