// A training program with the flags that all such programs share: mpirun -np 2 my_training --help
#include <tasuki/tasuki.hpp>

#include "my_model.hpp"

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
  TrainingProgram program("my_training", "trains a perceptron on patterns");
  std::int64_t unit = 100;
  program.flags.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers");
  program.settings.epoch = 5;
  program.settings.batchsize = 50;
  program.settings.lr = 0.003;

  // Called on rank 0, which sends each rank its share.
  program.train_data = [] { return patterns(4000, 0); };
  program.test_data = [] { return patterns(500, 1); };
  program.create_model = [&](const DatasetHeader& data) {
    return create_classifier(std::make_unique<MyModel>(inputs, unit, data.field("t").classes));
  };
  return program.run(argc, argv);
}
