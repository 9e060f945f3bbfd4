// A learning-rate schedule of your own, in addition to the flags': mpirun -np 2 own_schedule
#include <cmath>
#include <numbers>

#include <tasuki/tasuki.hpp>

using namespace tasuki;

namespace {

constexpr std::int64_t inputs = 256, classes = 10;

// Made-up patterns; any other Dataset would do here.
std::unique_ptr<Dataset> patterns(std::int64_t count, std::uint64_t split) {
  return std::make_unique<SyntheticDataset>(SyntheticOptions{
      .count = count, .example_shape = {inputs}, .classes = classes, .split = split});
}

// Falls along a cosine from `initial` to a hundredth of it, again in each cycle (warm restarts:
// Loshchilov and Hutter, arXiv 1608.03983). `t`: steps since the beginning.
double cyclic_rate(double initial, std::int64_t t, std::int64_t steps_of_cycle) {
  const double x = static_cast<double>(t % steps_of_cycle) / static_cast<double>(steps_of_cycle);
  return initial * (0.01 + 0.99 * (1 + std::cos(std::numbers::pi * x)) / 2);
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("own_schedule", "trains a perceptron with cycles of the learning rate");
  double cycle = 2;
  program.flags.add("cycle", cycle, {0.1, 1e6}, "EPOCHS", "length of a cycle of the learning rate");
  program.settings.epoch = 4;
  program.settings.batchsize = 50;
  program.train_data = [] { return patterns(4000, 0); };
  program.test_data = [] { return patterns(500, 1); };
  program.create_model = [](const DatasetHeader& data) {
    return create_classifier(std::make_unique<MLP>(inputs, 100, data.field("t").classes));
  };
  program.extend = [&cycle](Trainer& trainer) {
    const Updater& updater = trainer.updater();
    const auto steps = static_cast<std::int64_t>(
        std::ceil(cycle * static_cast<double>(updater.steps_per_epoch())));
    // Called before the first step and after each one; starts from the value of --lr. A snapshot
    // holds the initial value, and the position in the data determines the rest.
    trainer.extend(std::make_unique<Shift>(
        "CyclicRate", updater.optimizer().rule().rate_name(),
        [steps](double initial, std::int64_t t) { return cyclic_rate(initial, t, steps); },
        Shift::Time::position));
    trainer.extend(observe_lr());
  };
  program.columns = {"epoch", "main/loss", "validation/main/accuracy", "lr"};
  return program.run(argc, argv);
}
