#include <fmt/format.h>
#include <omp.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {
// omp_get_max_threads() costs a call into the runtime; loops ask often.
thread_local int threads_of_this_thread = 0;

// Arithmetic on subnormal numbers takes a hundred cycles and more, and Adam's moments of weights
// whose gradient stays zero all decay into that range. Threads made later inherit the setting.
void flush_subnormals() {
#if defined(__SSE2__)
  constexpr unsigned flush_results = 0x8000, treat_inputs_as_zero = 0x0040;
  _mm_setcsr(_mm_getcsr() | flush_results | treat_inputs_as_zero);
#endif
}
}  // namespace

void set_cpu_threads(int threads) {
  TASUKI_CHECK(threads >= 1, "at least one thread is needed, {} were asked for", threads);
  omp_set_num_threads(threads);
  threads_of_this_thread = threads;
  flush_subnormals();
#pragma omp parallel num_threads(threads) if (threads > 1)
  flush_subnormals();
}

int cpu_threads() {
  if (threads_of_this_thread == 0) threads_of_this_thread = omp_get_max_threads();
  return threads_of_this_thread;
}

}  // namespace tasuki
