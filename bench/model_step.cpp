// One training step (forward, backward, momentum SGD) of a convolutional network on synthetic
// images.
//
//   model_step MODEL BATCH [STEPS = 5] [THREADS = 1] [float32|bfloat16]
//
// After two steps that create primitives, prints one line of JSON with the seconds of every step:
// with one thread processor time, which excludes other work on the machine, otherwise wall-clock
// time.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "models/catalog.hpp"
#include "nn/classifier.hpp"
#include "nn/initializer.hpp"
#include "number_type.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"

using namespace tasuki;

namespace {

double now(int threads) {
  timespec time{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int run(const std::string& name, std::int64_t batch, int steps, int threads,
        const std::string& precision) {
  set_cpu_threads(threads);
  const DType type = bench::number_type(precision);
  const bool is_lenet = name == "lenet";
  const Shape image = is_lenet ? Shape{1, 28, 28} : Shape{3, 32, 32};
  Classifier model(create_model(name, {.classes = 10, .image = image}));
  model.initialize(1);
  const auto optimizer = create_optimizer("momentum_sgd");
  optimizer->set("lr", 0.01);
  optimizer->compute_in(type);
  optimizer->setup(model);

  const Tensor images = Tensor::empty({batch, image[0], image[1], image[2]});
  initializers::uniform(1)(images, 1, 2);
  const Tensor t = Tensor::empty({batch}, DType::int32);
  for (std::int64_t i = 0; i < batch; ++i)
    t.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 10);
  const Variable x(images.to(type));

  std::vector<double> seconds;
  for (int step = -2; step < steps; ++step) {
    const double start = now(threads);
    optimizer->update([&] { return model(x, t).loss; }, batch);
    if (step >= 0) seconds.push_back(now(threads) - start);
  }
  fmt::print(
      "{{\"model\": \"{}\", \"batch\": {}, \"threads\": {}, \"precision\": \"{}\", "
      "\"seconds\": [{:.6f}]}}\n",
      name, batch, threads, precision, fmt::join(seconds, ", "));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: model_step MODEL BATCH [STEPS] [THREADS] [float32|bfloat16]\n");
    return 64;
  }
  try {
    return run(argv[1], std::atoll(argv[2]), argc > 3 ? std::atoi(argv[3]) : 5,
               argc > 4 ? std::atoi(argv[4]) : 1, argc > 5 ? argv[5] : "float32");
  } catch (const Error& error) {
    fmt::print(stderr, "model_step: {}\n", error.what());
    return error.exit_code();
  }
}
