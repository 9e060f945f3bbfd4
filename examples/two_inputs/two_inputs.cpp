// A model with two inputs: do two vectors point the same way? mpirun -np 2 two_inputs
#include "tasuki/communicator/registry.hpp"
#include "tasuki/core/philox.hpp"
#include "tasuki/dataset/iterators/share_iterator.hpp"
#include "tasuki/dataset/tensor_dataset.hpp"
#include "tasuki/job/run_job.hpp"
#include "tasuki/nn/functions/accuracy.hpp"
#include "tasuki/nn/functions/activation.hpp"
#include "tasuki/nn/functions/add.hpp"
#include "tasuki/nn/functions/concat.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/training/extensions/log_report.hpp"
#include "tasuki/training/extensions/print_report.hpp"
#include "tasuki/training/trainer.hpp"

using namespace tasuki;

namespace {

constexpr std::int64_t examples = 4000, values = 4, units = 64, batch_size = 50;

// Both inputs go through the same layer, and a second one sees what came of them side by side.
class TwinModel : public Module {
 public:
  TwinModel() : twin_(values, units), joined_(2 * units, units), out_(units, 2) {
    add("twin", twin_);
    add("joined", joined_);
    add("out", out_);
  }
  Variable operator()(const Variable& left, const Variable& right) {
    const Variable both = concat({relu(twin_(left)), relu(twin_(right))}, /*axis=*/1);
    return out_(relu(joined_(both)));
  }

 private:
  Linear twin_, joined_, out_;
};

// Pairs of vectors, and whether their inner product is positive.
TensorDataset made_up_pairs() {
  std::vector<float> left, right;
  std::vector<std::int32_t> is_alike;
  RandomStream random(/*seed=*/0);
  for (std::int64_t i = 0; i < examples; ++i) {
    float product = 0;
    for (std::int64_t j = 0; j < values; ++j) {
      left.push_back(random.normal());
      right.push_back(random.normal());
      product += left.back() * right.back();
    }
    is_alike.push_back(product > 0 ? 1 : 0);
  }
  TensorField label = vector_field("is_alike", is_alike);
  label.is_target = true;
  label.classes = 2;
  return TensorDataset(
      {vector_field("left", left, {values}), vector_field("right", right, {values}), label});
}

int train(int, char**) {
  const auto communicator = create_communicator("auto");
  set_cpu_threads(1);  // per rank; more where there are more cores than ranks

  const TensorDataset pairs = made_up_pairs();
  Share share = scatter_dataset(&pairs, *communicator, {.shuffle = true});  // rank 0's counts

  TwinModel model;
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(model);
  optimizer->set("alpha", 0.003);

  const LossFunction loss = [&model](const Batch& batch, Observation& report) {
    const Variable scores = model(Variable(batch["left"]), Variable(batch["right"]));
    const Tensor& t = batch["is_alike"];
    report.add_sum("accuracy", count_correct(scores, t), batch.size());
    return softmax_cross_entropy(scores, t);
  };
  auto updater = std::make_unique<StandardUpdater>(
      create_shuffled_iterator(std::move(share), batch_size, /*seed=*/0), *optimizer, loss);
  Trainer trainer(std::move(updater), stop_after(10), "result_two_inputs");
  trainer.extend(std::make_unique<LogReport>());
  trainer.extend(std::make_unique<PrintReport>(
      std::vector<std::string>{"epoch", "main/loss", "main/accuracy"}));
  trainer.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}
