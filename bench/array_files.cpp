// Examples a second of processor time from a file of arrays.
//
//   bench_array_files npy|hdf5 PATH ARRAY [BATCH = 100] [THREADS = 1]
//
// Reads all examples once to warm up, then for a second each in order and shuffled, with loader
// threads of which each reads whole batches, and prints "ORDER EXAMPLES/S MB/S" (of the values as
// they are in the file's type).
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "array_files/hdf5_dataset.hpp"
#include "array_files/npy_dataset.hpp"

using namespace tasuki;

namespace {

using Clock = std::chrono::steady_clock;

// Examples a second of processor time, so that other work on the machine counts less.
double rate(const Dataset& data, const std::vector<std::int64_t>& order, std::int64_t batch,
            int threads) {
  constexpr std::chrono::seconds duration(1);
  std::atomic<std::int64_t> next = 0, read = 0;
  const std::int64_t batches = std::ssize(order) / batch;
  const auto start = Clock::now();
  const std::clock_t used = std::clock();
  const auto work = [&] {
    while (Clock::now() - start < duration) {
      const std::int64_t at = next++ % batches;
      read_batch(data, std::span(order).subspan(static_cast<std::size_t>(at * batch),
                                                static_cast<std::size_t>(batch)));
      read += batch;
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return static_cast<double>(read) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - used);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    fmt::print(stderr, "usage: {} npy|hdf5 PATH ARRAY [BATCH] [THREADS]\n", argv[0]);
    return 64;
  }
  const std::int64_t batch = argc > 4 ? std::atoll(argv[4]) : 100;
  const int threads = argc > 5 ? std::atoi(argv[5]) : 1;
  try {
    const std::vector<ArrayFileField> fields = {{"x", argv[3]}};
    const auto data = std::string_view(argv[1]) == "hdf5" ? open_hdf5(argv[2], fields)
                                                          : open_npy(argv[2], fields);
    std::vector<std::int64_t> order(static_cast<std::size_t>(data->size()));
    std::iota(order.begin(), order.end(), 0);
    const double bytes = static_cast<double>(data->header().fixed_bytes());
    for (std::size_t at = 0; at + static_cast<std::size_t>(batch) <= order.size();
         at += static_cast<std::size_t>(batch))
      read_batch(*data, std::span(order).subspan(at, static_cast<std::size_t>(batch)));
    for (const char* const name : {"in_order", "shuffled"}) {
      const double examples = rate(*data, order, batch, threads);
      fmt::print("{} {:.0f} {:.0f}\n", name, examples, examples * bytes / 1e6);
      std::ranges::shuffle(order, std::mt19937(1));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
