// One training step (forward, backward, momentum SGD) of a convolutional network on synthetic
// images.
//
//   [mpirun -np 2] model_step MODEL BATCH [STEPS = 5] [THREADS = 1] [float32|bfloat16]
//
// BATCH images a rank. After two steps that create primitives, rank 0 prints one line of JSON with
// the seconds of every step: with one rank of one thread processor time, which excludes other work
// on the machine, otherwise wall-clock time.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/registry.hpp"
#include "job/run_job.hpp"
#include "models/catalog.hpp"
#include "nn/classifier.hpp"
#include "nn/initializer.hpp"
#include "number_type.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"

using namespace tasuki;

namespace {

double now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int run(int argc, char** argv) {
  if (argc < 3)
    fail_everywhere(ErrorKind::usage,
                    "expected model_step MODEL BATCH [STEPS] [THREADS] [float32|bfloat16]");
  const std::string_view name = argv[1];
  const std::int64_t batch = std::atoll(argv[2]);
  const int steps = argc > 3 ? std::atoi(argv[3]) : 5, threads = argc > 4 ? std::atoi(argv[4]) : 1;
  const DType type = bench::number_type(argc > 5 ? argv[5] : "float32");
  set_cpu_threads(threads);
  const auto ranks = create_communicator("auto");
  const bool is_alone = ranks->size() == 1, is_lenet = name == "lenet";
  const Shape image = is_lenet ? Shape{1, 28, 28} : Shape{3, 32, 32};
  Classifier model(create_model(name, {.classes = 10, .image = image}));
  model.initialize(1);
  auto optimizer = create_optimizer("momentum_sgd");
  if (!is_alone) optimizer = create_multi_node_optimizer(std::move(optimizer), *ranks);
  optimizer->set("lr", 0.01);
  optimizer->compute_in(type);
  optimizer->setup(model);

  const Tensor images = Tensor::empty({batch, image[0], image[1], image[2]});
  initializers::uniform(1)(images, 1, 2);
  const Tensor t = Tensor::empty({batch}, DType::int32);
  for (std::int64_t i = 0; i < batch; ++i)
    t.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 10);
  const Variable x(images.to(type));

  const clockid_t clock = is_alone && threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> seconds;
  for (int step = -2; step < steps; ++step) {
    ranks->barrier();
    const double start = now(clock);
    optimizer->update([&] { return model(x, t).loss; }, batch);
    ranks->barrier();
    if (step >= 0) seconds.push_back(now(clock) - start);
  }
  if (ranks->rank() == 0)
    fmt::print(
        "{{\"model\": \"{}\", \"batch\": {}, \"ranks\": {}, \"threads\": {}, "
        "\"precision\": \"{}\", \"seconds\": [{:.6f}]}}\n",
        name, batch, ranks->size(), threads, name_of(type), fmt::join(seconds, ", "));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, run);
}
