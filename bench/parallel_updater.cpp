// One process with several workers: steps of the MLP (784-1000-1000-10, batch 400) with one worker
// and with two, and with two where the second does all its work twice, the case for `--split auto`.
// All configurations take turns in one run.
//
//   parallel_updater [TURNS = 5] [STEPS = 40 a turn] [THREADS = 1 a worker]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "dataset/iterators/share_iterator.hpp"
#include "dataset/synthetic.hpp"
#include "models/mlp.hpp"
#include "tensor/backend.hpp"
#include "training/standard_updater.hpp"
#include "training/workers/parallel_updater.hpp"

using namespace tasuki;

namespace {

constexpr std::int64_t batch_size = 400;

// The loss, after doing the same work once for nothing.
LossFunction done_twice(Classifier& model) {
  return [&model, loss = classification_loss(model)](const Batch& batch, Observation& report) {
    Observation ignored;
    loss(batch, ignored).backward();
    model.clear_grads();
    return loss(batch, report);
  };
}

struct Configuration {
  Configuration(std::string title, BatchSplit split, bool is_last_slow, int threads)
      : name(std::move(title)), optimizer(create_optimizer("adam")) {
    std::vector<ParallelUpdater::Worker> workers;
    for (std::size_t i = 0; i < split.workers(); ++i) {
      models.push_back(std::make_unique<Classifier>(std::make_unique<MLP>()));
      models[i]->initialize(1);
      Classifier& model = *models[i];
      const bool is_slow = is_last_slow && i + 1 == split.workers();
      workers.push_back({model, is_slow ? done_twice(model) : classification_loss(model), threads});
    }
    optimizer->setup(*models[0]);
    const auto data = std::make_shared<SyntheticDataset>(
        SyntheticOptions{.count = 20 * batch_size, .example_shape = {784}, .classes = 10});
    ParallelUpdater::Settings settings;
    settings.split = std::move(split);
    updater = std::make_unique<ParallelUpdater>(
        create_shuffled_iterator(Share::whole(data), batch_size, 1), *optimizer, std::move(workers),
        settings);
  }

  void run(int steps) {
    Observation ignored;
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; ++step) updater->update(ignored);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds.push_back(taken.count() / steps);
  }
  double median() {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }

  std::string name;
  std::vector<std::unique_ptr<Classifier>> models;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<ParallelUpdater> updater;
  std::vector<double> seconds;  // per step, in each turn
};

int run(int turns, int steps, int threads) {
  std::vector<std::unique_ptr<Configuration>> all;
  const auto add = [&](const char* name, const BatchSplit& split, bool is_last_slow) {
    all.push_back(std::make_unique<Configuration>(name, split, is_last_slow, threads));
  };
  add("1 worker", BatchSplit::even(1), false);
  add("2 workers, even", BatchSplit::even(2), false);
  add("2 workers, auto", BatchSplit::measured(2), false);
  add("2 workers, one 2 x slower, even", BatchSplit::even(2), true);
  add("2 workers, one 2 x slower, auto", BatchSplit::measured(2), true);

  for (const auto& each : all) {  // primitives, caches, and the split
    each->run(60);
    each->seconds.clear();
  }
  for (int turn = 0; turn < turns; ++turn)
    for (const auto& each : all) each->run(steps);

  fmt::print(
      "MLP 784-1000-1000-10, Adam, batch {}, {} thread(s) a worker, {} turns of {} steps, {}\n",
      batch_size, threads, turns, steps, backend(Device::cpu()).describe());
  for (const auto& each : all)
    fmt::print("  {:<32} {:7.2f} ms a step, split {}\n", each->name, each->median() * 1e3,
               each->updater->split().text());
  fmt::print("2 workers are {:.2f} x as fast as 1\n", all[0]->median() / all[1]->median());
  constexpr double aim = 1.25;
  const double gain = all[3]->median() / all[4]->median();
  fmt::print("with one 2 x slower, auto is {:.2f} x as fast as even (aim: {})\n", gain, aim);
  return gain < aim ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 5, argc > 2 ? std::atoi(argv[2]) : 40,
               argc > 3 ? std::atoi(argv[3]) : 1);
  } catch (const Error& error) {
    fmt::print(stderr, "parallel_updater: {}\n", error.what());
    return error.exit_code();
  }
}
