// Trains a perceptron with the rule in lion.cpp: mpirun -np 2 own_rule --no-decay-1d
#include <tasuki/tasuki.hpp>

using namespace tasuki;

namespace {

constexpr std::int64_t inputs = 256, classes = 10;

// Made-up patterns; any other Dataset would do here.
std::unique_ptr<Dataset> patterns(std::int64_t count, std::uint64_t split) {
  return std::make_unique<SyntheticDataset>(SyntheticOptions{
      .count = count, .example_shape = {inputs}, .classes = classes, .split = split});
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("own_rule", "trains a perceptron with a custom update rule");
  program.settings.optimizer = "lion";
  program.settings.lr = 1e-3;
  program.settings.weight_decay = 0.1;
  program.settings.epoch = 5;
  program.settings.batchsize = 50;
  program.train_data = [] { return patterns(4000, 0); };
  program.test_data = [] { return patterns(500, 1); };
  program.create_model = [](const DatasetHeader& data) {
    return create_classifier(std::make_unique<MLP>(inputs, 100, data.field("t").classes));
  };
  return program.run(argc, argv);
}
