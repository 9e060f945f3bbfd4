// train_mnist_data_parallel with workers of unequal speed on equal cores: the i-th worker does all
// its work --work[i] times, and keeps the last result. So devices of one kind behave like two
// different GPUs (experiments/unequal_devices.ini).
//
//   bench_unequal_workers --devices cpu:2 --work 1,2 --split auto

#include "core/text_parts.hpp"
#include "models/mlp.hpp"
#include "program/training_program.hpp"

using namespace tasuki;

namespace {

// "1,2" as {1, 2}.
std::vector<std::int64_t> parse_work(const std::string& text) {
  std::vector<std::int64_t> work;
  for (const std::string& word : text_parts(text, ','))
    work.push_back(program::parse_integer(word, {1, 100}));
  return work;
}

// A worker's loss, after work - 1 extra forward and backward passes.
LossFunction repeated(Module& model, LossFunction loss, std::int64_t times) {
  return [&model, loss = std::move(loss), times](const Batch& batch, Observation& report) {
    for (std::int64_t turn = 1; turn < times; ++turn) {
      Observation ignored;
      const Variable found = loss(batch, ignored);
      if (!TrainingMode::is_training()) continue;
      found.backward();
      model.clear_grads();
    }
    return loss(batch, report);
  };
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("bench_unequal_workers",
                          "trains a perceptron on MNIST with workers of unequal speed");
  program.settings.workers.emplace();
  program.settings.batchsize = 400;
  program.settings.out = "result_unequal_workers";
  std::string work = "1,2";
  program.flags.add("work", work, "N,...", "how often each worker does its work");
  program.dataset = "mnist";
  program.example_shape = Shape{784};
  program.create_model = [&, made = std::size_t{0}](const DatasetHeader& data) mutable {
    const std::vector<std::int64_t> times = parse_work(work);
    TrainingModel model =
        create_classifier(std::make_unique<MLP>(784, 1000, data.field("t").classes));
    model.loss = repeated(*model.model, model.loss, times.at(made++ % times.size()));
    return model;
  };
  return program.run(argc, argv);
}
