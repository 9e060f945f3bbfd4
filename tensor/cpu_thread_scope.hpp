// CpuThreadScope: set_cpu_threads() for a part of a program.
#pragma once

namespace tasuki {

// While it exists, the calling thread computes with so many threads, and subnormal numbers count as
// zero in all of them. Afterwards OpenMP's number of threads and the treatment of subnormal numbers
// are as before, in this thread and its team, so that the program's own loops round as they did.
// OpenMP keeps the threads of a team for later loops (omp_pause_resource_all(omp_pause_hard) ends
// them).
class CpuThreadScope {
 public:
  explicit CpuThreadScope(int threads);
  ~CpuThreadScope();
  CpuThreadScope(const CpuThreadScope&) = delete;
  CpuThreadScope& operator=(const CpuThreadScope&) = delete;

 private:
  int threads_before_;
  unsigned control_before_;  // of floating-point arithmetic
};

}  // namespace tasuki
