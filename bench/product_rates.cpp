// Rates of matrix products of a fully connected layer in its three passes, as a JSON line with what
// the processor can do (peak_rates.hpp). One thread.
//
//   product_rates ROUNDS M K N [M K N]... [steps M K N...]
//
// M rows, K inputs, N outputs of each layer; the fastest call in `ROUNDS` x 10 ms counts. After
// `steps` stand layers that a sequence passes through once a step: their products are
// tensor/cpu/step_product.hpp's, with weights that were ordered before and sums of float32. Of
// weights' gradients, which are computed for all steps at once, they have none.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "peak_rates.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/step_product.hpp"

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

struct Layer {
  std::int64_t m, k, n;
  DType type;
};

std::string text_of(const Layer& layer, const std::string& seconds) {
  return fmt::format(R"({{"m": {}, "k": {}, "n": {}, "type": "{}", {}}})", layer.m, layer.k,
                     layer.n, name_of(layer.type), seconds);
}

std::string measured(int rounds, const Layer& layer) {
  const auto& [m, k, n, type] = layer;
  Backend& cpu = backend(Device::cpu());
  const Tensor x = halves({m, k}, type), w = halves({n, k}, type), dy = halves({m, n}, type);
  const Tensor dw = Tensor::empty({n, k});
  const double forward = seconds_of(rounds, [&] { cpu.linear(x, w, {}, false); });
  const double data = seconds_of(rounds, [&] { cpu.linear_backward_data(dy, w); });
  const double weights =
      seconds_of(rounds, [&] { cpu.linear_backward_weights(x, dy, dw, false, {}); });
  return text_of(layer, fmt::format(R"("forward": {:.4e}, "data": {:.4e}, "weights": {:.4e})",
                                    forward, data, weights));
}

std::string measured_step(int rounds, const Layer& layer) {
  using Direction = StepProduct::Direction;
  const Tensor w = halves({layer.n, layer.k}, layer.type);
  const auto seconds = [&](Direction direction, std::int64_t from, std::int64_t to) {
    StepProduct product(w, direction, layer.m);
    const Tensor x = halves({layer.m, from}, layer.type), y = Tensor::empty({layer.m, to});
    product.run(layer.m, x, y.data<float>());  // orders the weights
    return seconds_of(rounds, [&] { product.run(layer.m, x, y.data<float>()); });
  };
  return text_of(layer, fmt::format(R"("forward": {:.4e}, "data": {:.4e})",
                                    seconds(Direction::forward, layer.k, layer.n),
                                    seconds(Direction::backward, layer.n, layer.k)));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes;
  std::size_t steps_at = std::numeric_limits<std::size_t>::max();
  for (int i = 2; i < argc; ++i)
    if (std::string_view(argv[i]) == "steps")
      steps_at = sizes.size();
    else
      sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty() || sizes.size() % 3 != 0) {
    fmt::print(stderr, "usage: product_rates ROUNDS M K N [M K N]... [steps M K N...]\n");
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  set_cpu_threads(1);
  // Before and after the products, in case that others slow the processor for a while.
  double float32 = bench::float32_rate(), bfloat16 = bench::bfloat16_rate(),
         copy = bench::copy_rate();
  std::string rows;
  for (std::size_t i = 0; i < sizes.size(); i += 3)
    for (const DType type : {DType::float32, DType::bfloat16}) {
      const Layer layer{sizes[i], sizes[i + 1], sizes[i + 2], type};
      rows += (rows.empty() ? "" : ", ") +
              (i < steps_at ? measured(rounds, layer) : measured_step(rounds, layer));
    }
  float32 = std::max(float32, bench::float32_rate());
  bfloat16 = std::max(bfloat16, bench::bfloat16_rate());
  copy = std::max(copy, bench::copy_rate());
  fmt::print(R"({{"float32": {:.4e}, "bfloat16": {:.4e}, "copy": {:.4e}, "layers": [{}]}})"
             "\n",
             float32, bfloat16, copy, rows);
}
