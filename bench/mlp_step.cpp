// One training step of the MLP (784-1000-1000-10, Adam), and the lower bound of its time: its eight
// matrix products alone, and Adam's memory traffic. One run measures them in turns, so that a busy
// machine slows all equally.
//
//   mlp_step [ROUNDS = 200] [THREADS = 1] [BATCH = 100] [float32|bfloat16]
//
// The type applies to the step's products; the lower bound uses float32.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "nn/initializer.hpp"
#include "number_type.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

using namespace tasuki;

namespace {

// Times of one part, over the rounds.
struct Part {
  std::string name;
  std::function<void()> run;
  double operations = 0;  // floating-point; 0 if meaningless
  std::vector<double> seconds = {};

  double quantile(double q) {
    std::ranges::sort(seconds);
    return seconds[static_cast<std::size_t>(q * static_cast<double>(seconds.size() - 1))];
  }
};

// Seconds of this thread's processor time, or of the wall clock with several threads: processor
// time excludes other work on the machine.
double now(int threads) {
  timespec time{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double measure(const std::function<void()>& run) {
  const int threads = cpu_threads();
  const double start = now(threads);
  run();
  return now(threads) - start;
}

Tensor noise(const Shape& shape) {
  Tensor made = Tensor::empty(shape);
  initializers::uniform(1)(made, 1, 2);
  return made;
}

// The matrix products of one layer, directly by oneDNN.
void add_products(std::vector<Part>& parts, const std::string& layer, std::int64_t batch,
                  std::int64_t in, std::int64_t out, bool first) {
  const Tensor x = noise({batch, in}), w = noise({out, in}), y = noise({batch, out});
  const double operations = 2.0 * static_cast<double>(batch * in * out);
  const auto product = [=](char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k,
                           const Tensor& a, const Tensor& b, const Tensor& c) {
    return [=] {
      const std::int64_t lda = ta == 'N' ? k : m, ldb = tb == 'N' ? n : k;
      if (dnnl_sgemm(ta, tb, m, n, k, 1, a.data<float>(), lda, b.data<float>(), ldb, 0,
                     c.data<float>(), n) != dnnl_success)
        fail(ErrorKind::internal, "dnnl_sgemm failed");
    };
  };
  parts.push_back(
      {layer + " forward", product('N', 'T', batch, out, in, x, w, y.clone()), operations});
  parts.push_back({layer + " dW", product('T', 'N', out, in, batch, y, x, w.clone()), operations});
  if (!first)
    parts.push_back(
        {layer + " dx", product('N', 'N', batch, in, out, y, w, x.clone()), operations});
}

// Adam's unavoidable memory traffic: reads parameter, gradient and two states, writes all but the
// gradient.
TASUKI_VECTORIZE void touch_as_adam(float* __restrict p, const float* __restrict g,
                                    float* __restrict m, float* __restrict v, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] += g[i];
    v[i] += g[i];
    p[i] += g[i];
  }
}

void print(Part& part) {
  fmt::print("  {:<28} {:>9.1f} {:>9.1f}", part.name, part.quantile(0) * 1e6,
             part.quantile(0.5) * 1e6);
  if (part.operations > 0) fmt::print(" {:>9.1f}", part.operations / part.quantile(0) * 1e-9);
  fmt::print("\n");
}

int run(int rounds, int threads, std::int64_t batch, DType type) {
  set_cpu_threads(threads);
  Classifier model(std::make_unique<MLP>());
  model.initialize(1);
  const auto optimizer = create_optimizer("adam");
  optimizer->compute_in(type);
  optimizer->setup(model);
  const Variable x(noise({batch, 784}).to(type));
  const Tensor t = Tensor::empty({batch}, DType::int32);
  for (std::int64_t i = 0; i < batch; ++i)
    t.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 10);

  std::vector<Part> products;
  add_products(products, "l1", batch, 784, 1000, true);
  add_products(products, "l2", batch, 1000, 1000, false);
  add_products(products, "l3", batch, 1000, 10, false);
  std::array<Tensor, 4> arrays;
  for (Tensor& array : arrays) array = noise({optimizer->arena().update_count()});
  Part traffic{"Adam's memory traffic", [&] {
                 parallel_for(arrays[0].count(), elementwise_grain, [&](auto begin, auto end) {
                   const auto from = [&](std::size_t i) { return arrays[i].data<float>() + begin; };
                   touch_as_adam(from(0), from(1), from(2), from(3), end - begin);
                 });
               }};
  Part step{"whole step", [&] { optimizer->update([&] { return model(x, t).loss; }, batch); }};
  Part forward{"forward", [&] { model(x, t); }};
  Part both{"forward and backward", [&] {
              model.clear_grads();
              model(x, t).loss.backward();
            }};
  Part sum{"sum of the products", {}, 0};
  for (const Part& product : products) sum.operations += product.operations;

  for (int round = -3; round < rounds; ++round) {  // the first ones make primitives and fill caches
    double total = 0;
    for (Part& product : products) {
      const double seconds = measure(product.run);
      total += seconds;
      if (round >= 0) product.seconds.push_back(seconds);
    }
    if (round >= 0) sum.seconds.push_back(total);
    for (Part* part : {&traffic, &forward, &both, &step}) {
      const double seconds = measure(part->run);
      if (round >= 0) part->seconds.push_back(seconds);
    }
  }

  fmt::print("MLP 784-1000-1000-10, batch {}, {} thread(s), {} rounds, {}\n", batch, threads,
             rounds, backend(Device::cpu()).describe());
  fmt::print("  {:<28} {:>9} {:>9} {:>9}\n", "microseconds", "best", "median", "GFLOP/s");
  for (Part& part : products) print(part);
  for (Part* part : {&sum, &traffic, &forward, &both, &step}) print(*part);
  const double floor = sum.quantile(0.5) + traffic.quantile(0.5);
  fmt::print("forward and backward / products: {:.3f} (best of each: {:.3f})\n",
             both.quantile(0.5) / sum.quantile(0.5), both.quantile(0) / sum.quantile(0));
  fmt::print("whole step / (products + traffic): {:.3f} (best of each: {:.3f})\n",
             step.quantile(0.5) / floor,
             step.quantile(0) / (sum.quantile(0) + traffic.quantile(0)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 200, argc > 2 ? std::atoi(argv[2]) : 1,
               argc > 3 ? std::atoi(argv[3]) : 100,
               bench::number_type(argc > 4 ? argv[4] : "float32"));
  } catch (const Error& error) {
    fmt::print(stderr, "mlp_step: {}\n", error.what());
    return error.exit_code();
  }
}
