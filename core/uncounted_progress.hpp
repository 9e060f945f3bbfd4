// UncountedProgress: work that goes on beside what the process is there for.
#pragma once

namespace tasuki {

// RAII: no progress of this thread is reported (activity.hpp), because it would hide stalls of the
// main thread, which does not wait for it.
class UncountedProgress {
 public:
  UncountedProgress();
  ~UncountedProgress();
  UncountedProgress(const UncountedProgress&) = delete;
  UncountedProgress& operator=(const UncountedProgress&) = delete;

 private:
  bool before_;
};
// Whether this thread's progress counts.
bool counts_progress();

}  // namespace tasuki
