// A program that saves while it trains and resumes where it was: mpirun -np 2 resuming [EPOCHS]
//
// It may be killed at any moment. Started again, it continues from its newest checkpoint and ends
// with the results of an uninterrupted run; with more epochs than before it trains for longer.
#include <iostream>
#include <string>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t inputs = 64, classes = 10, batch_size = 50;

int train(int argc, char** argv) {
  const auto communicator = create_communicator("auto");
  set_cpu_threads(1);  // per rank; more where there are more cores than ranks
  const bool is_root = communicator->rank() == 0;
  MLP model(inputs, 50, classes);
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(model);

  const SyntheticDataset patterns({.count = 2000, .example_shape = {inputs}, .classes = classes});
  const Share share =
      scatter_dataset(is_root ? &patterns : nullptr, *communicator, {.shuffle = true});
  const LossFunction loss = [&model](const Batch& batch, Observation&) {
    return F::softmax_cross_entropy(model(Variable(batch["x"])), batch["t"]);
  };
  auto updater = std::make_unique<StandardUpdater>(
      create_shuffled_iterator(share, batch_size, /*seed=*/0), *optimizer, loss);
  const double epochs = argc > 1 ? std::stod(argv[1]) : 10;
  Trainer trainer(std::move(updater), stop_after(epochs), "result_resuming");
  trainer.extend(std::make_unique<Evaluator>(create_serial_iterator(share, batch_size), loss));
  trainer.extend(std::make_unique<LogReport>());
  trainer.extend(std::make_unique<PrintReport>(
      std::vector<std::string>{"epoch", "main/loss", "validation/main/loss"}));
  // Every minute, and at the end; the last three and the best one remain.
  trainer.extend(std::make_unique<Checkpoint>(
      Checkpoint::Settings{.n_retains = 3, .keep_best = "validation/main/loss"},
      every_seconds(60)));

  // After all extensions are attached, because their states are loaded, too.
  if (resume_newest(trainer) && is_root)
    std::cout << "going on from " << trainer.last_saved().string() << std::endl;
  trainer.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}
