// Rates of matrix products of a fully connected layer in its three passes, as a JSON line with what
// the processor can do (peak_rates.hpp). One thread.
//
//   product_rates ROUNDS M K N [M K N]...
//
// M rows, K inputs, N outputs of each layer; the fastest call in `ROUNDS` x 10 ms
// counts.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>

#include "peak_rates.hpp"
#include "tensor/backend.hpp"

using namespace tasuki;

namespace {

Tensor halves(const Shape& shape, DType type) {
  return Tensor::full(shape, 0.5).to(type);
}

// Seconds of the fastest call in `rounds` runs of 10 ms: as the limits, what the processor does
// while nothing interrupts it.
double seconds_of(int rounds, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point start = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() - begin < rounds * std::chrono::milliseconds(10));
  return best;
}

std::string measured(int rounds, std::int64_t m, std::int64_t k, std::int64_t n, DType type) {
  Backend& cpu = backend(Device::cpu());
  const Tensor x = halves({m, k}, type), w = halves({n, k}, type), dy = halves({m, n}, type);
  const Tensor dw = Tensor::empty({n, k});
  const double forward = seconds_of(rounds, [&] { cpu.linear(x, w, {}, false); });
  const double data = seconds_of(rounds, [&] { cpu.linear_backward_data(dy, w); });
  const double weights =
      seconds_of(rounds, [&] { cpu.linear_backward_weights(x, dy, dw, false, {}); });
  return fmt::format(R"({{"m": {}, "k": {}, "n": {}, "type": "{}", )"
                     R"("forward": {:.4e}, "data": {:.4e}, "weights": {:.4e}}})",
                     m, k, n, name_of(type), forward, data, weights);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || argc % 3 != 2) {
    fmt::print(stderr, "usage: product_rates ROUNDS M K N [M K N]...\n");
    return 2;
  }
  set_cpu_threads(1);
  // Before and after the products, in case that others slow the processor for a while.
  double float32 = bench::float32_rate(), bfloat16 = bench::bfloat16_rate(),
         copy = bench::copy_rate();
  std::string rows;
  for (int i = 2; i < argc; i += 3)
    for (const DType type : {DType::float32, DType::bfloat16})
      rows += (rows.empty() ? "" : ", ") + measured(std::atoi(argv[1]), std::atoll(argv[i]),
                                                    std::atoll(argv[i + 1]),
                                                    std::atoll(argv[i + 2]), type);
  float32 = std::max(float32, bench::float32_rate());
  bfloat16 = std::max(bfloat16, bench::bfloat16_rate());
  copy = std::max(copy, bench::copy_rate());
  fmt::print(R"({{"float32": {:.4e}, "bfloat16": {:.4e}, "copy": {:.4e}, "layers": [{}]}})"
             "\n",
             float32, bfloat16, copy, rows);
}
