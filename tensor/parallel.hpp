// The calling thread's team of threads, and loops over it. With one thread or little work they cost
// only a comparison.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "tensor/backend.hpp"

namespace tasuki {

// Gives all threads of the team alternate signal stacks if oneDNN's sgemm needs them
// (core/alternate_stack.hpp), including threads that were replaced: to be called before it runs.
void protect_team();

// The first exception of a team's threads: one that left its thread would end the process.
class TeamFailure {
 public:
  template <class Work>
  void guard(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      if (!is_taken_.exchange(true)) first_ = std::current_exception();
    }
  }
  // After the team has ended.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> is_taken_ = false;
  std::exception_ptr first_;
};

// Calls body(begin, end) on disjoint parts of [0, count), on up to cpu_threads() threads, each part
// at least `grain` items. An exception is thrown again when all parts have ended. Vectorised loops
// belong in a separate function that `body` calls, because GCC does not make target clones of
// functions that OpenMP outlines.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t parts =
      std::min<std::int64_t>(cpu_threads(), count / std::max<std::int64_t>(grain, 1));
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  TeamFailure failure;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (std::int64_t part = 0; part < parts; ++part)
    failure.guard([&] { body(count * part / parts, count * (part + 1) / parts); });
  failure.rethrow();
}

// Below this number of elements, waking other threads costs more than an element-wise loop.
inline constexpr std::int64_t elementwise_grain = 32768;

}  // namespace tasuki
