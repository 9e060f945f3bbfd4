#include <fmt/core.h>
#include <omp.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "core/alternate_stack.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/cpu_thread_scope.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {
// As set_cpu_threads() was told; 0: what OpenMP would use.
thread_local int threads_of_this_thread = 0;
// The size of the team that protect_team() has protected.
thread_local int protected_threads = 0;

// The thread's control word of floating-point arithmetic (MXCSR).
unsigned floating_point_control() {
#if defined(__SSE2__)
  return _mm_getcsr();
#else
  return 0;
#endif
}
void set_floating_point_control([[maybe_unused]] unsigned control) {
#if defined(__SSE2__)
  _mm_setcsr(control);
#endif
}

// Arithmetic on subnormal numbers takes a hundred cycles and more, and Adam's moments of weights
// whose gradient stays zero all decay into that range. Threads made later inherit the setting.
void flush_subnormals() {
  constexpr unsigned flush_results = 0x8000, treat_inputs_as_zero = 0x0040;
  set_floating_point_control(floating_point_control() | flush_results | treat_inputs_as_zero);
}
}  // namespace

void set_cpu_threads(int threads) {
  TASUKI_CHECK(threads >= 1, "expected at least one thread, found {}", threads);
  omp_set_num_threads(threads);
  threads_of_this_thread = threads;
  flush_subnormals();
#pragma omp parallel num_threads(threads) if (threads > 1)
  flush_subnormals();
}

CpuThreadScope::CpuThreadScope(int threads)
    : threads_before_(omp_get_max_threads()), control_before_(floating_point_control()) {
  set_cpu_threads(threads);
}

CpuThreadScope::~CpuThreadScope() {
  const int threads = cpu_threads();
#pragma omp parallel num_threads(threads) if (threads > 1)
  set_floating_point_control(control_before_);
  set_floating_point_control(control_before_);
  omp_set_num_threads(threads_before_);
  threads_of_this_thread = threads_before_;
}

int cpu_threads() {
  if (omp_in_parallel()) return 1;
  if (threads_of_this_thread == 0) threads_of_this_thread = omp_get_max_threads();
  return threads_of_this_thread;
}

void protect_team() {
  if (!sgemm_needs_alternate_stacks()) return;
  if (omp_in_parallel()) return use_alternate_stack();
  // OpenMP ends the threads that a smaller team does not need and makes new ones for the next large
  // one. A team of two cannot shrink, because loops on one thread do not use OpenMP.
  const int threads = cpu_threads();
  constexpr int always_whole = 2;
  if (threads == protected_threads && threads <= always_whole) return;
  protected_threads = threads;
  use_alternate_stack();
#pragma omp parallel num_threads(threads) if (threads > 1)
  use_alternate_stack();
}

}  // namespace tasuki
