// An autoencoder: images without labels. mpirun -np 2 autoencoder
#include "tasuki/communicator/registry.hpp"
#include "tasuki/dataset/iterators/share_iterator.hpp"
#include "tasuki/dataset/synthetic.hpp"
#include "tasuki/dataset/tensor_dataset.hpp"
#include "tasuki/job/run_job.hpp"
#include "tasuki/nn/functions/activation.hpp"
#include "tasuki/nn/functions/mean_squared_error.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/nn/sequential.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/training/extensions/log_report.hpp"
#include "tasuki/training/extensions/print_report.hpp"
#include "tasuki/training/trainer.hpp"

using namespace tasuki;

namespace {

constexpr std::int64_t pixels = 64, code = 8, batch_size = 50;

// Bytes, which become value / 255 in batches.
Tensor made_up_images() {
  const SyntheticDataset patterns({.count = 2000, .example_shape = {pixels}, .classes = 4});
  StoredField images(patterns, patterns.header().index_of("x"));
  const Tensor all = Tensor::empty({patterns.size(), pixels}, DType::uint8);
  auto* next = static_cast<std::byte*>(all.raw());
  for (std::int64_t i = 0; i < patterns.size(); ++i) next = std::ranges::copy(images[i], next).out;
  return all;
}

int train(int, char**) {
  const auto communicator = create_communicator("auto");
  set_cpu_threads(1);  // per rank; more where there are more cores than ranks

  // One field and no labels. Rank 0 has the images, and every rank gets its share.
  std::unique_ptr<TensorDataset> images;
  if (communicator->rank() == 0)
    images = std::make_unique<TensorDataset>(std::vector<TensorField>{{"x", made_up_images()}});
  Share share = scatter_dataset(images.get(), *communicator, {.shuffle = true});

  Sequential model;
  model.append("encoder", std::make_unique<Linear>(pixels, code))
      .append([](const Variable& x) { return relu(x); })
      .append("decoder", std::make_unique<Linear>(code, pixels));
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(model);
  optimizer->set("alpha", 0.01);

  const LossFunction loss = [&model](const Batch& batch, Observation&) {
    return mean_squared_error(model(Variable(batch["x"])), batch["x"]);
  };
  auto updater = std::make_unique<StandardUpdater>(
      create_shuffled_iterator(std::move(share), batch_size, /*seed=*/0), *optimizer, loss);
  Trainer trainer(std::move(updater), stop_after(10), "result_autoencoder");
  trainer.extend(std::make_unique<LogReport>());
  trainer.extend(std::make_unique<PrintReport>(
      std::vector<std::string>{"epoch", "main/loss", "elapsed_time"}));
  trainer.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}
