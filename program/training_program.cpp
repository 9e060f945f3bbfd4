#include "tasuki/program/training_program.hpp"

#include "tasuki/job/run_job.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/program/run_training.hpp"
#include "tasuki/program/start/job.hpp"

namespace tasuki {

TrainingModel create_classifier(std::unique_ptr<Layer> predictor) {
  auto model = std::make_unique<Classifier>(std::move(predictor));
  LossFunction loss = classification_loss(*model);
  return {std::move(model), std::move(loss)};
}

TrainingProgram::TrainingProgram(std::string name, std::string description, std::string example)
    : flags(name, std::move(description),
            example.empty() ? fmt::format("mpirun -np 2 {}", name) : std::move(example)) {
  flags.group("Program");
}

int TrainingProgram::run(int argc, char** argv) {
  return run_job(argc, argv, [this](int count, char** words) {
    program::add_training_flags(
        flags, settings, {.data = dataset.empty(), .optimizer = create_optimizer != nullptr});
    if (recipe) flags.choose_defaults([this] { program::apply_recipe(recipe(), flags, settings); });
    if (const auto job = program::start_job(flags, settings, count, words))
      program::run_training(*this, *job);
    return 0;
  });
}

}  // namespace tasuki
