// A training loop of your own, data-parallel, without Trainer: mpirun -np 2 plain_loop
#include <iostream>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t inputs = 256, classes = 10, batch_size = 50, epochs = 5;

int train(int, char**) {
  const auto communicator = create_communicator("auto");
  MLP model(inputs, 100, classes);
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(model);
  optimizer->set("alpha", 0.003);

  // Rank 0 has the data and sends each rank its share.
  const SyntheticDataset patterns({.count = 4000, .example_shape = {inputs}, .classes = classes});
  const bool is_root = communicator->rank() == 0;
  const auto batches = create_shuffled_iterator(
      scatter_dataset(is_root ? &patterns : nullptr, *communicator, {.shuffle = true}), batch_size,
      /*seed=*/0);

  Observation seen;  // sums over the examples of an epoch
  while (batches->epoch() < epochs) {
    const Batch batch = batches->next();
    const Tensor loss = optimizer->update(
        [&] { return F::softmax_cross_entropy(model(Variable(batch["x"])), batch["t"]); },
        batch.size());
    if (batch.size() > 0) seen.add_mean("loss", loss, batch.size());
    if (!batches->is_new_epoch()) continue;
    const Observation all = seen.over_ranks(communicator.get());
    seen.clear();
    if (is_root)
      std::cout << "epoch " << batches->epoch() << ", loss " << *all.mean("loss") << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}
