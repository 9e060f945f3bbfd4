// One training step of a DCGAN on synthetic images of 3 x 32 x 32: both networks' losses, and
// the exchange and Adam of each.
//
//   [mpirun -np 2] dcgan_step BATCH [STEPS = 5] [CHANNELS = 512] [float32|bfloat16]
//
// One thread per rank, BATCH images each. After two steps that create primitives, rank 0 prints one
// line of JSON with the seconds of every step, and of its products alone (dcgan_floor.hpp), which
// all ranks compute at once between the steps. Times are wall-clock times, or processor time with
// TASUKI_BENCH_CLOCK=processor. The step multiplies in this type; the products alone are float32.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "communicator/registry.hpp"
#include "dcgan_floor.hpp"
#include "job/run_job.hpp"
#include "models/dcgan.hpp"
#include "nn/initializer.hpp"
#include "number_type.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/late_values.hpp"

using namespace tasuki;

namespace {

double now() {
  static const char* const clock = std::getenv("TASUKI_BENCH_CLOCK");
  static const bool is_processors = clock != nullptr && std::string_view(clock) == "processor";
  if (is_processors) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int run(int argc, char** argv) {
  if (argc < 2)
    fail_everywhere(ErrorKind::usage,
                    "expected dcgan_step BATCH [STEPS] [CHANNELS] [float32|bfloat16]");
  const std::int64_t batch = std::atoll(argv[1]);
  const int steps = argc > 2 ? std::atoi(argv[2]) : 5;
  const DcganSettings settings{.channels = argc > 3 ? std::atoll(argv[3]) : 512};
  set_cpu_threads(1);
  const DType type = bench::number_type(argc > 4 ? argv[4] : "float32");
  const auto ranks = create_communicator("auto");
  Dcgan gan(settings);
  gan.initialize(1);
  const auto optimizer_of = [&](Module& model) {
    auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *ranks);
    optimizer->set("beta1", 0.5);
    optimizer->set("alpha", 2e-4);
    optimizer->add_hook(weight_decay(1e-4));
    optimizer->compute_in(type);
    optimizer->setup(model);
    return optimizer;
  };
  const auto gen = optimizer_of(gan.gen), dis = optimizer_of(gan.dis);
  gen->keep_graphs(true);  // its loss was computed by the discriminator
  const Tensor drawn = Tensor::empty({batch, 3, 32, 32});
  initializers::uniform(1)(drawn, 1, 2);
  const Tensor images = drawn.to(type);

  const bench::DcganFloor products(settings, batch);
  std::vector<double> seconds, floor;
  for (int step = -2; step < steps; ++step) {
    ranks->barrier();
    const double start = now();
    StepScope scope;
    DcganLosses losses;
    gen->forward(
        [&] {
          losses = dcgan_losses(gan, settings, images);
          return losses.gen;
        },
        batch);
    dis->forward([&] { return losses.dis; }, batch);
    const std::int64_t of_gen = gen->backward_and_exchange(losses.gen, batch);
    const std::int64_t of_dis = dis->backward_and_exchange(losses.dis, batch);
    gen->update(of_gen);
    dis->update(of_dis);
    scope.succeeded();
    losses = {};
    ranks->barrier();
    const double end = now();
    products.run();
    ranks->barrier();
    if (step < 0) continue;
    seconds.push_back(end - start);
    floor.push_back(now() - end);
  }
  if (ranks->rank() == 0)
    fmt::print("{{\"batch\": {}, \"ranks\": {}, \"seconds\": [{:.6f}], \"floor\": [{:.6f}]}}\n",
               batch, ranks->size(), fmt::join(seconds, ", "), fmt::join(floor, ", "));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, run);
}
