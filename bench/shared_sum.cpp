// The lower bound of an exchange inside a node: two threads on two cores sum two arrays of memory
// shared between processes, each its half, and write the sums to both.
//
//   bench_shared_sum [BYTES = 7184040] [EXCHANGES = 400]
//
// Prints the median, 10 % quantile and fastest time of an exchange, in microseconds.
#include <fmt/core.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "tensor/vectorize.hpp"

namespace {

using Clock = std::chrono::steady_clock;

TASUKI_VECTORIZE void sum_into_both(float* a, float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

// Zeroed memory that other processes could map as well.
float* shared_array(std::size_t bytes) {
  const int file = memfd_create("shared_sum", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make shared memory");
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (place == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map shared memory");
  std::memset(place, 0, bytes);
  return static_cast<float*>(place);
}

void stay_on_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (const int status = pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores))
    throw std::system_error(status, std::generic_category(), fmt::format("core {}", core));
}

// A barrier for both threads; `visits` counts how often this one came.
void meet(std::atomic<int>& arrivals, int& visits) {
  ++arrivals;
  ++visits;
  while (arrivals < 2 * visits) {
  }
}

std::vector<double> exchange(std::size_t bytes, int exchanges) {
  const std::array<float*, 2> arrays = {shared_array(bytes), shared_array(bytes)};
  const std::size_t count = bytes / sizeof(float), half = count / 2;
  std::atomic<int> arrivals = 0;
  std::vector<double> microseconds;
  const auto work = [&](int rank) {
    stay_on_core(rank);
    const std::size_t begin = rank == 0 ? 0 : half, end = rank == 0 ? half : count;
    int visits = 0;
    for (int i = 0; i < exchanges; ++i) {
      meet(arrivals, visits);
      const Clock::time_point start = Clock::now();
      sum_into_both(arrays[0] + begin, arrays[1] + begin, end - begin);
      meet(arrivals, visits);
      const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
      if (rank == 0) microseconds.push_back(taken.count());
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  std::ranges::sort(microseconds);
  return microseconds;
}

}  // namespace

int main(int count, char** values) try {
  const std::size_t bytes = count > 1 ? std::strtoull(values[1], nullptr, 10) : 7184040;
  const int exchanges = count > 2 ? std::atoi(values[2]) : 400;
  if (bytes < 2 * sizeof(float) || exchanges < 1)
    throw std::invalid_argument("expected BYTES of at least 8 and at least one of EXCHANGES");
  const std::vector<double> microseconds = exchange(bytes, exchanges);
  const auto quantile = [&](double q) {
    return microseconds[static_cast<std::size_t>(q * static_cast<double>(exchanges - 1))];
  };
  fmt::print("{} bytes: median {:.1f} us, 10 % {:.1f}, fastest {:.1f}\n", bytes, quantile(0.5),
             quantile(0.1), microseconds.front());
} catch (const std::exception& error) {
  fmt::print(stderr, "shared_sum: {}\n", error.what());
  return 1;
}
