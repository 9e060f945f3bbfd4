// One training step (forward and backward) of an LSTM on padded sequences, and the lower bound of
// its time: its matrix products alone, as large as its algorithm allows. One run measures both in
// turns, so that a busy machine slows both equally.
//
//   [mpirun -np 2] lstm_step [ROUNDS = 10] [THREADS = 1] [LAYERS = 2] [UNITS = 512] [BATCH = 64]
//   [LENGTH = 32]
//             [even|ragged] [float32|bfloat16]
//
// BATCH sequences a rank; ragged: lengths from LENGTH / 2 to LENGTH, evenly. With several ranks, a
// step has the exchange of gradients and an update by SGD, too. Rank 0 prints one JSON object with
// the seconds of each round: with one rank of one thread processor time, otherwise wall-clock time.
// The step multiplies in this type; the lower bound is float32.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/registry.hpp"
#include "job/run_job.hpp"
#include "nn/function.hpp"
#include "nn/n_step_rnn.hpp"
#include "number_type.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_interface.hpp"

using namespace tasuki;

namespace {

struct Sizes {
  std::int64_t layers = 2, units = 512, batch = 64, length = 32;
};

// Seconds until all ranks have ended.
double measure(Communicator& ranks, const std::function<void()>& run) {
  const bool is_alone = ranks.size() == 1 && cpu_threads() == 1;
  const auto now = [&] {
    timespec time{};
    ::clock_gettime(is_alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  ranks.barrier();
  const double start = now();
  run();
  ranks.barrier();
  return now() - start;
}

Tensor noise(const Shape& shape) {
  Tensor made = Tensor::empty(shape);
  initializers::uniform(1)(made, 1, 2);
  return made;
}

// The products of all layers for `tokens` elements: for inputs and weight gradients all steps at
// once, for states step by step. Batches are even.
void run_products(const Sizes& s, std::int64_t tokens) {
  static const Tensor x = noise({tokens, s.units}), w = noise({4 * s.units, s.units}),
                      y = noise({tokens, 4 * s.units}), dw = noise({4 * s.units, s.units});
  const auto product = [](char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k,
                          const Tensor& a, const Tensor& b, const Tensor& c) {
    const std::int64_t lda = ta == 'N' ? k : m, ldb = tb == 'N' ? n : k;
    if (dnnl_sgemm(ta, tb, m, n, k, 1, a.data<float>(), lda, b.data<float>(), ldb, 0,
                   c.data<float>(), n) != dnnl_success)
      fail(ErrorKind::internal, "dnnl_sgemm failed");
  };
  const std::int64_t gates = 4 * s.units, steps = tokens / s.batch;
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    product('N', 'T', tokens, gates, s.units, x, w, y);
    for (std::int64_t t = 0; t < steps; ++t) product('N', 'T', s.batch, gates, s.units, x, w, y);
    for (std::int64_t t = 0; t < steps; ++t) product('N', 'N', s.batch, s.units, gates, y, w, x);
    for (int both = 0; both < 2; ++both) product('T', 'N', gates, s.units, tokens, y, x, dw);
    product('N', 'N', tokens, s.units, gates, y, w, x);
  }
}

// The gradient of the sum of y * gradient, so that every output has a gradient.
class WeightedSum final : public Function {
 public:
  explicit WeightedSum(Tensor gradient) : gradient_(std::move(gradient)) {}
  const char* name() const override { return "weighted_sum"; }
  void backward(const Tensor&, Gradients& gradients) override { gradients.add(0, gradient_); }

 private:
  Tensor gradient_;
};

int run(int rounds, int threads, const Sizes& s, bool is_ragged, DType type) {
  set_cpu_threads(threads);
  const auto ranks = create_communicator("auto");
  NStepLSTM model(s.layers, s.units, s.units);
  model.initialize(1);
  auto optimizer = create_optimizer("sgd");
  if (ranks->size() > 1) optimizer = create_multi_node_optimizer(std::move(optimizer), *ranks);
  optimizer->set("lr", 1e-6);  // the gates stay away from their limits
  optimizer->compute_in(type);
  optimizer->setup(model);  // the arena
  const Tensor x = noise({s.batch, s.length, s.units}).to(type);
  const Tensor lengths = Tensor::empty({s.batch}, DType::int64);
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < s.batch; ++i) {
    const std::int64_t shorter = is_ragged ? i % (s.length / 2 + 1) : 0;
    lengths.data<std::int64_t>()[i] = s.length - shorter;
    tokens += s.length - shorter;
  }
  tokens = tokens / s.batch * s.batch;
  const Tensor upstream = noise({s.batch, s.length, s.units}).to(type);

  const auto loss = [&] {
    const Variable y = model(Variable(x, true), lengths).y;
    return Function::record(Tensor::zeros({}), {y},
                            [&] { return std::make_unique<WeightedSum>(upstream); });
  };

  std::vector<double> steps, products;
  for (int round = -2; round < rounds; ++round) {  // the first ones create primitives
    const double floor = measure(*ranks, [&] { run_products(s, tokens); });
    const double step = measure(*ranks, [&] {
      if (ranks->size() > 1) {
        optimizer->update(loss, s.batch);
      } else {
        model.clear_grads();
        loss().backward();
      }
    });
    if (round < 0) continue;
    products.push_back(floor);
    steps.push_back(step);
  }
  if (ranks->rank() == 0)
    fmt::print("{{\"seconds\": [{}], \"products\": [{}]}}\n", fmt::join(steps, ", "),
               fmt::join(products, ", "));
  return 0;
}

int run_of_arguments(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  return run(number(1, 10), number(2, 1),
             {number(3, 2), number(4, 512), number(5, 64), number(6, 32)},
             argc > 7 && std::string_view(argv[7]) == "ragged",
             bench::number_type(argc > 8 ? argv[8] : "float32"));
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, run_of_arguments);
}
