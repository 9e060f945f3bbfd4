// A training step of a chain of stages, one on each rank, whose batch is divided into M
// micro-batches (parallel/pipeline.hpp), against the bound (M + S - 1) / (M S) of the time that the
// S stages need one after another.
//
//   mpirun -np 2 --bind-to core pipeline_step [ROUNDS = 20] [BATCH = 2048] [UNITS = 1024]
//     [LAYERS = 2]
//
// Each stage has LAYERS fully connected layers with ReLU; momentum SGD; one thread a rank. All
// cases take turns, so that a busy machine slows all; rank 0 prints medians and least times in
// Markdown. In the columns "one rank", rank 0 has all stages and computes the same micro-batches
// one after another.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "job/run_job.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/pipeline.hpp"
#include "tensor/backend.hpp"

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

struct Sizes {
  int rounds;
  std::int64_t batch, units;
  int layers;
};

std::unique_ptr<Sequential> stage_of(const Sizes& sizes, int stages = 1) {
  auto stage = std::make_unique<Sequential>();
  for (int i = 0; i < stages * sizes.layers; ++i)
    stage->append(fmt::format("l{}", i),
                  std::make_unique<Linear>(sizes.units, sizes.units, true,
                                           initializers::lecun_normal(), /*relu=*/true));
  return stage;
}

Tensor random_batch(const Sizes& sizes, std::uint64_t seed) {
  Tensor made = Tensor::empty({sizes.batch, sizes.units});
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

std::unique_ptr<Optimizer> optimizer_of(Module& model) {
  auto optimizer = create_optimizer("momentum_sgd");
  model.initialize(1);
  optimizer->setup(model);
  return optimizer;
}

double seconds_of(Communicator& comm, const std::function<void()>& step) {
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  step();
  comm.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Times {
  double median, least;
};
Times times_of(std::vector<double>& seconds) {
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front()};
}

class Bench {
 public:
  Bench(Communicator& comm, const Sizes& sizes)
      : comm_(comm),
        x_(random_batch(sizes, 2)),
        t_(random_batch(sizes, 3)),
        chain_(comm),
        whole_(stage_of(sizes, comm.size())) {
    LinkRanks ranks;
    if (comm.rank() > 0) ranks.in = {comm.rank() - 1};
    if (!is_last()) ranks.out = {comm.rank() + 1};
    chain_.add_link("stage", stage_of(sizes), ranks);
    optimizer_ = optimizer_of(chain_);
    of_whole_ = optimizer_of(*whole_);
  }

  void step(Pipeline& pipeline) {
    const auto part = [&](std::int64_t i) { return pipeline.part(x_.shape()[0], i); };
    StepScope scope;
    pipeline.run(
        [&](std::int64_t i) {
          return optimizer_->forward([&] { return loss_of(part(i)); }, part(i).size(), true);
        },
        [&](std::int64_t i, const Variable& loss) { optimizer_->backward(loss, part(i).size()); });
    optimizer_->update(optimizer_->exchange());
    scope.succeeded();
  }

  void step_of_one_rank(std::int64_t micro_batches) {
    if (comm_.rank() != 0) return;
    StepScope scope;
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      const Range part = part_of(x_.shape()[0], micro_batches, i);
      const auto loss = [&] {
        return F::mean_squared_error((*whole_)(Variable(x_.slice(part.begin, part.end))),
                                     t_.slice(part.begin, part.end));
      };
      of_whole_->backward(of_whole_->forward(loss, part.size()), part.size());
    }
    of_whole_->update(of_whole_->exchange());
    scope.succeeded();
  }

  MultiNodeChainList& chain() { return chain_; }

 private:
  bool is_last() const { return comm_.rank() + 1 == comm_.size(); }
  Variable loss_of(Range part) {
    const Variable y =
        chain_(comm_.rank() == 0 ? Variable(x_.slice(part.begin, part.end)) : Variable());
    return is_last() ? F::mean_squared_error(y, t_.slice(part.begin, part.end)) : y;
  }

  Communicator& comm_;
  Tensor x_, t_;
  MultiNodeChainList chain_;
  std::unique_ptr<Sequential> whole_;
  std::unique_ptr<Optimizer> optimizer_, of_whole_;
};

void measure(const Sizes& sizes) {
  set_cpu_threads(1);
  const auto comm = create_communicator("naive");
  Bench bench(*comm, sizes);
  struct Case {
    Pipeline pipeline;
    std::vector<double> seconds = {}, of_one_rank = {};
  };
  std::vector<Case> cases;
  for (const std::int64_t micro_batches : {1, 2, 4, 8})
    cases.push_back({Pipeline(bench.chain(), micro_batches)});
  for (int round = -1; round < sizes.rounds; ++round)
    for (Case& each : cases) {
      const double seconds = seconds_of(*comm, [&] { bench.step(each.pipeline); });
      const double of_one_rank =
          seconds_of(*comm, [&] { bench.step_of_one_rank(each.pipeline.micro_batches()); });
      if (round < 0) continue;  // memory is allocated
      each.seconds.push_back(seconds);
      each.of_one_rank.push_back(of_one_rank);
    }
  if (comm->rank() != 0) return;
  fmt::print(
      "| M | ms a step | fastest | of M = 1 | fastest, of M = 1 | bound | one rank, ms | fastest "
      "|\n"
      "|-|-|-|-|-|-|-|-|\n");
  const Times whole = times_of(cases.front().seconds);
  for (Case& each : cases) {
    const auto m = static_cast<double>(each.pipeline.micro_batches());
    const auto s = static_cast<double>(comm->size());
    const Times times = times_of(each.seconds), of_one_rank = times_of(each.of_one_rank);
    fmt::print("| {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} | {:.3f} | {:.0f} | {:.0f} |\n", m,
               1e3 * times.median, 1e3 * times.least, times.median / whole.median,
               times.least / whole.least, (m + s - 1) / (m * s), 1e3 * of_one_rank.median,
               1e3 * of_one_rank.least);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, [](int count, char** words) {
    const auto number = [&](int i, int otherwise) {
      return i < count ? std::atoi(words[i]) : otherwise;
    };
    measure({number(1, 20), number(2, 2048), number(3, 1024), number(4, 2)});
    return 0;
  });
}
