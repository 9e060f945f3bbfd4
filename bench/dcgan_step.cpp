// One training step of a DCGAN on synthetic images of 3 x 32 x 32: both networks' losses, the
// exchange, and Adam.
//
//   [mpirun -np 2] dcgan_step BATCH [STEPS = 5] [CHANNELS = 512]
//
// One thread per rank, BATCH images each. Rank 0 prints one line of JSON with every step's seconds
// by the wall clock, after two steps that make primitives.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "tasuki/communicator/registry.hpp"
#include "tasuki/job/run_job.hpp"
#include "tasuki/models/dcgan.hpp"
#include "tasuki/nn/functions/add.hpp"
#include "tasuki/nn/initializer.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/backend.hpp"

using namespace tasuki;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int run(int argc, char** argv) {
  if (argc < 2) fail_everywhere(ErrorKind::usage, "expected dcgan_step BATCH [STEPS] [CHANNELS]");
  const std::int64_t batch = std::atoll(argv[1]);
  const int steps = argc > 2 ? std::atoi(argv[2]) : 5;
  const DcganSettings settings{.channels = argc > 3 ? std::atoll(argv[3]) : 512};
  set_cpu_threads(1);
  const auto ranks = create_communicator("auto");
  Dcgan gan(settings);
  gan.initialize(1);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *ranks);
  optimizer->set("beta1", 0.5);
  optimizer->set("alpha", 2e-4);
  optimizer->add_hook(weight_decay(1e-4));
  optimizer->setup(gan);
  const Tensor images = Tensor::empty({batch, 3, 32, 32});
  initializers::uniform(1)(images, 1, 2);

  std::vector<double> seconds;
  for (int step = -2; step < steps; ++step) {
    ranks->barrier();
    const double start = now();
    optimizer->update(
        [&] {
          const DcganLosses losses = dcgan_losses(gan, settings, images);
          return losses.dis + losses.gen;
        },
        batch);
    ranks->barrier();
    if (step >= 0) seconds.push_back(now() - start);
  }
  if (ranks->rank() == 0)
    fmt::print("{{\"batch\": {}, \"ranks\": {}, \"seconds\": [{:.6f}]}}\n", batch, ranks->size(),
               fmt::join(seconds, ", "));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, run);
}
