// Data-parallel training in one page: mpirun -np 2 my_training [communicator]
#include <iostream>

#include "my_model.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/dataset/iterators/share_iterator.hpp"
#include "tasuki/dataset/scatter.hpp"
#include "tasuki/dataset/synthetic.hpp"
#include "tasuki/job/run_job.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/training/extensions/evaluator.hpp"
#include "tasuki/training/extensions/log_report.hpp"
#include "tasuki/training/extensions/print_report.hpp"
#include "tasuki/training/trainer.hpp"

using namespace tasuki;

namespace {

constexpr std::int64_t inputs = 256, classes = 10, batch_size = 50;

int train(int argc, char** argv) {
  const auto communicator = create_communicator(argc > 1 ? argv[1] : "double");
  if (communicator->rank() == 0) std::cout << communicator->describe() << std::endl;

  set_cpu_threads(1);  // per rank; more where there are more cores than ranks

  Classifier model(std::make_unique<MyModel>(inputs, 100, classes));
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(model);
  optimizer->set("alpha", 0.003);

  // Any Dataset will do here; rank 0 has it and every rank gets its share.
  const SyntheticDataset train_set({.count = 4000, .example_shape = {inputs}, .classes = classes});
  const SyntheticDataset test_set(
      {.count = 500, .example_shape = {inputs}, .classes = classes, .split = 1});
  const bool root = communicator->rank() == 0;
  Share train_share =
      scatter_dataset(root ? &train_set : nullptr, *communicator, {.shuffle = true});
  Share test_share = scatter_dataset(root ? &test_set : nullptr, *communicator);

  const auto loss = classification_loss(model);
  auto updater = std::make_unique<StandardUpdater>(
      create_shuffled_iterator(std::move(train_share), batch_size, /*seed=*/0), *optimizer, loss);
  Trainer trainer(std::move(updater), stop_after(5), "result");
  trainer.extend(
      std::make_unique<Evaluator>(create_serial_iterator(std::move(test_share), batch_size), loss));
  trainer.extend(std::make_unique<LogReport>());
  trainer.extend(std::make_unique<PrintReport>(std::vector<std::string>{
      "epoch", "main/loss", "validation/main/loss", "validation/main/accuracy", "elapsed_time"}));
  trainer.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}
