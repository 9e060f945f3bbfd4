// An extension and a metric of your own, beside those that flags attach: mpirun -np 2 own_extension
#include <algorithm>
#include <cmath>

#include <tasuki/tasuki.hpp>

using namespace tasuki;

namespace {

constexpr std::int64_t inputs = 256, classes = 10;

// Counts the examples whose label is among the three largest scores, on the host. The extensions
// that report the metric add up the counts of all batches and ranks.
std::int64_t count_in_top_3(const Tensor& on_device, const Tensor& labels_on_device) {
  // A replayed step would not count.
  if (!on_device.device().is_cpu()) refuse_recording("top_3 is counted on the host");
  const Tensor scores = on_device.to(Device::cpu()), labels = labels_on_device.to(Device::cpu());
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < labels.count(); ++i) {
    const float* row = scores.data<float>() + i * classes;
    const float own = row[labels.data<std::int32_t>()[i]];
    count += std::count_if(row, row + classes, [own](float score) { return score > own; }) < 3;
  }
  return count;
}

TrainingModel model_for(const DatasetHeader& data) {
  auto model = std::make_unique<MLP>(inputs, 100, data.field("t").classes);
  LossFunction loss = [predictor = model.get()](const Batch& batch, Observation& report) {
    const Variable scores = (*predictor)(Variable(batch["x"]));
    const std::int64_t right = count_in_top_3(scores.value(), batch["t"]);
    report.add_sum("top_3", static_cast<double>(right), batch.size());
    return softmax_cross_entropy(scores, batch["t"]);
  };
  return {std::move(model), std::move(loss)};
}

// Adds the L2 norm of the weights, and its growth since the last epoch, to the log in each epoch.
// The last norm is saved in snapshots, so that a resumed run can continue from it.
class WeightGrowth : public Extension {
 public:
  std::string default_name() const override { return "WeightGrowth"; }
  // Runs before the extensions that report values.
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }

  void run(Trainer& trainer) override {
    const Tensor& weights = trainer.updater().optimizer().arena().values();
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
  program.train_data = [] {
    return std::make_unique<SyntheticDataset>(
        SyntheticOptions{.count = 4000, .example_shape = {inputs}, .classes = classes});
  };
  program.test_data = [] {
    return std::make_unique<SyntheticDataset>(
        SyntheticOptions{.count = 500, .example_shape = {inputs}, .classes = classes, .split = 1});
  };
  program.create_model = model_for;
  program.extend = [](Trainer& trainer) { trainer.extend(std::make_unique<WeightGrowth>()); };
  program.columns = {"epoch", "main/loss", "validation/main/loss", "validation/main/top_3",
                     "weights/norm"};
  return program.run(argc, argv);
}
