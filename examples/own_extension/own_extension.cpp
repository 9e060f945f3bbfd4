// An extension and a metric of your own, added to the standard ones: mpirun -np 2 own_extension
#include <algorithm>
#include <cmath>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t inputs = 256, classes = 10;

// Made-up patterns; any other Dataset would do here.
std::unique_ptr<Dataset> patterns(std::int64_t count, std::uint64_t split) {
  return std::make_unique<SyntheticDataset>(SyntheticOptions{
      .count = count, .example_shape = {inputs}, .classes = classes, .split = split});
}

// Counts the examples whose label is among the three largest scores, on the host.
std::int64_t count_in_top_3(const Tensor& on_device, const Tensor& labels_on_device) {
  const Tensor scores = on_device.to(Device::cpu()).to(DType::float32);
  const Tensor labels = labels_on_device.to(Device::cpu());
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < labels.count(); ++i) {
    const float* row = scores.data<float>() + i * classes;
    const float own = row[labels.data<std::int32_t>()[i]];
    count += std::count_if(row, row + classes, [own](float score) { return score > own; }) < 3;
  }
  return count;
}

// Evaluates the loss, and how often the label is among the three largest scores. The trainer adds
// up the counts of all batches and ranks.
class TopThree : public Evaluator {
 public:
  TopThree(std::unique_ptr<Iterator> batches, LossFunction loss, MLP& model)
      : Evaluator(std::move(batches), std::move(loss)), model_(model) {}

 protected:
  // Called instead of the loss function; batches are on the model's device.
  void evaluate_batch(const Batch& batch, Observation& seen) override {
    // On a GPU, training steps are still recorded: their loss function stays on the device.
    refuse_recording("top_3 is counted on the host");
    const Variable scores = model_(Variable(batch["x"]));
    seen.add_mean("loss", F::softmax_cross_entropy(scores, batch["t"]).value(), batch.size());
    const std::int64_t right = count_in_top_3(scores.value(), batch["t"]);
    seen.add_sum("top_3", static_cast<double>(right), batch.size());
  }

 private:
  MLP& model_;
};

// Adds the L2 norm of the weights, and its growth since the last epoch, to the log in each epoch.
// The last norm is saved in snapshots, so that a resumed run can continue from it.
class WeightGrowth : public Extension {
 public:
  std::string default_name() const override { return "WeightGrowth"; }
  // Runs before the extensions that report values.
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  // With --exchange double-buffered the trainer brings the model up to date before run().
  bool reads_model() const override { return true; }

  void run(Trainer& trainer) override {
    const Optimizer& optimizer = trainer.updater().optimizer();
    if (optimizer.divides_weights())
      fail_everywhere(ErrorKind::usage,
                      "weights/norm: with --shard weights no rank has all weights");
    const Tensor& weights = optimizer.arena().values();
    const double norm = std::sqrt(backend(weights.device()).squared_norm(weights));
    trainer.observation().set("weights/norm", norm);  // the same on all ranks
    trainer.observation().set("weights/growth", before_ > 0 ? norm / before_ : 1);
    before_ = norm;
  }
  void serialize(const Serializer& serializer) override { serializer("before", before_); }

 private:
  double before_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("own_extension", "trains a perceptron and reports a custom metric");
  program.settings.epoch = 5;
  program.settings.batchsize = 50;
  program.train_data = [] { return patterns(4000, 0); };
  program.test_data = [] { return patterns(500, 1); };
  MLP* trained = nullptr;  // gives the evaluator its scores
  program.create_model = [&trained](const DatasetHeader& data) {
    auto model = std::make_unique<MLP>(inputs, 100, data.field("t").classes);
    if (trained == nullptr) trained = model.get();  // further models are copies for threads
    LossFunction loss = [made = model.get()](const Batch& batch, Observation&) {
      return F::softmax_cross_entropy((*made)(Variable(batch["x"])), batch["t"]);
    };
    return TrainingModel{std::move(model), std::move(loss)};
  };
  program.create_evaluator = [&trained](std::unique_ptr<Iterator> batches, LossFunction loss) {
    return std::make_unique<TopThree>(std::move(batches), std::move(loss), *trained);
  };
  program.extend = [](Trainer& trainer) { trainer.extend(std::make_unique<WeightGrowth>()); };
  program.columns = {"epoch", "main/loss", "validation/main/loss", "validation/main/top_3",
                     "weights/norm"};
  return program.run(argc, argv);
}
