#include "program/training_program.hpp"

#include <optional>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "job/run_job.hpp"
#include "nn/classifier.hpp"
#include "parallel/pipeline.hpp"
#include "program/data/array_data.hpp"
#include "program/data/initial_weights.hpp"
#include "program/data/training_data.hpp"
#include "program/device_workers.hpp"
#include "program/start/optimizer.hpp"
#include "program/start/precision.hpp"
#include "program/start/rank_setup.hpp"
#include "program/training_run.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/joint_updater.hpp"
#include "training/pipeline_updater.hpp"

namespace tasuki {
namespace program {
namespace {

// Whether a program may train on image files, so that it has their flags.
bool reads_images(const TrainingProgram& program) {
  return program.stream_images || program.dataset == "images" ||
         (program.flags.has("dataset") && program.dataset != "mnist");
}

// Whether flags fit each other, as far as that depends neither on the ranks nor on the machine.
void check_flags(const TrainingProgram& program) {
  const TrainingSettings& settings = program.settings;
  check_training_flags(program.flags, settings);
  check_device_flags(settings);
  check_divided_model(settings, /*ranks=*/1);
  check_compute_flags(settings, devices_in_flags(settings));
  if (program.flags.has("fields")) check_array_file_flags(program.flags, program, program.settings);
  if (program.check_flags) program.check_flags();
  if (!program.create_optimizer)
    create_optimizer(program.flags, settings,
                     static_cast<double>(examples_of_update(settings, /*ranks=*/1)));
}

void check_functions(const TrainingProgram& program, const RankSetup& setup) {
  TASUKI_CHECK(program.train || program.create_model || program.create_part,
               "a TrainingProgram needs train, create_model or create_part");
  TASUKI_CHECK(program.train_data || program.stream_images || !program.dataset.empty(),
               "a TrainingProgram needs train_data, stream_images or the name of a data set");
  TASUKI_CHECK(
      !program.train || (!program.create_model && !program.create_part && !program.wrap_batches &&
                         !program.create_updater && !program.create_evaluator),
      "TrainingProgram::train replaces create_model, create_part, wrap_batches, "
      "create_updater and create_evaluator; set either it or these");
  TASUKI_CHECK(!program.train || (!program.settings.workers && !setup.grid->is_divided()),
               "TrainingProgram::train is for whole models, one for each rank");
  TASUKI_CHECK(program.train || program.create_part || !setup.grid->is_divided(),
               "a model on several ranks needs create_part");
  TASUKI_CHECK(!program.create_updater || (!program.create_part && !program.settings.workers),
               "create_updater is for whole models on one device");
}

// Of a part of a model without its loss: takes part in the passes of the others.
class EvaluatorOfPart final : public Evaluator {
 public:
  EvaluatorOfPart(std::unique_ptr<Iterator> batches, const LossFunction& loss)
      : Evaluator(std::move(batches), loss), loss_(loss) {}

 private:
  void evaluate_batch(const Batch& batch, Observation& seen) override { loss_(batch, seen); }

  LossFunction loss_;
};

std::unique_ptr<Extension> create_evaluator(const TrainingProgram& program,
                                            std::unique_ptr<Iterator> batches, LossFunction loss,
                                            bool has_loss) {
  if (program.create_evaluator)
    return program.create_evaluator(std::move(batches), std::move(loss));
  if (!has_loss) return std::make_unique<EvaluatorOfPart>(std::move(batches), loss);
  return std::make_unique<Evaluator>(std::move(batches), std::move(loss));
}

// Recomputes blocks as --recompute says.
void follow_plan(TrainingModel& model, const TrainingRun& run) {
  model.loss = run.recomputing(std::move(model.loss));
  model.losses = run.recomputing(std::move(model.losses));
}

// The model on the device; rank 0 has the weights that the run starts from.
TrainingModel initial_model(const TrainingProgram& program, const RankSetup& setup,
                            TrainingRun& run) {
  const bool is_part = setup.grid->is_divided() || !program.create_model;
  TrainingModel model = is_part ? program.create_part(run.data_header(), setup.grid->model())
                                : program.create_model(run.data_header());
  follow_plan(model, run);
  run.initialize(*model.model);
  for (const TrainingModel::Part& part : model.parts)
    if (!part.init.empty() && !setup.resumption.from)
      load_initial_weights({part.init}, part.module, *setup.communicator, *setup.grid);
  model.model->to(setup.device());
  return model;
}

// One for each part of the model.
std::vector<std::unique_ptr<Optimizer>> multi_node_optimizers(const RankSetup& setup,
                                                              TrainingRun& run,
                                                              const TrainingModel& model) {
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  const auto add = [&](Module& module) {
    optimizers.push_back(create_multi_node_optimizer(run.create_optimizer(), setup.exchanging()));
    run.configure(*optimizers.back(), module);
  };
  if (model.parts.empty()) add(*model.model);
  for (const TrainingModel::Part& part : model.parts) add(part.module);
  return optimizers;
}

NamedOptimizers names_of(const std::vector<std::unique_ptr<Optimizer>>& optimizers,
                         const TrainingModel& model) {
  NamedOptimizers named;
  for (std::size_t i = 0; i < optimizers.size(); ++i)
    named.push_back({model.parts.empty() ? "main" : model.parts[i].name, optimizers[i].get()});
  return named;
}

// Of a rank with one device, and the loss function for evaluations while the updater exists.
std::pair<std::unique_ptr<Updater>, LossFunction> create_updater(
    const TrainingProgram& program, const RankSetup& setup, StandardUpdater::Settings step,
    std::unique_ptr<Iterator> batches, const TrainingModel& model, NamedOptimizers optimizers) {
  if (setup.grid->is_divided()) step.all_ranks = setup.communicator.get();
  step.has_loss = model.has_loss;
  step.evaluated_model = model.model.get();
  if (program.create_updater)
    return {program.create_updater({std::move(batches), std::move(optimizers), step}), model.loss};
  std::unique_ptr<BatchUpdater> updater;
  if (model.losses)
    updater = std::make_unique<JointUpdater>(std::move(batches), std::move(optimizers),
                                             model.losses, step);
  else if (model.micro_batches.run)
    updater = std::make_unique<PipelineUpdater>(std::move(batches), *optimizers.front().optimizer,
                                                model.loss, model.micro_batches, step);
  else
    updater = std::make_unique<StandardUpdater>(std::move(batches), *optimizers.front().optimizer,
                                                model.loss, step);
  LossFunction loss = updater->evaluation_loss(model.loss);
  return {std::move(updater), std::move(loss)};
}

// What apps/train_mnist.cpp spells out, also for models on several ranks or devices, with parts
// that have optimizers of their own, and for programs with iterators, updaters or evaluators of
// their own. Collective.
void train(const TrainingProgram& program, const RankSetup& setup, TrainingRun& run) {
  TrainingModel model = initial_model(program, setup, run);
  const auto owned = multi_node_optimizers(setup, run, model);
  const NamedOptimizers optimizers = names_of(owned, model);
  const auto create_copy = [&] {
    TrainingModel copy = program.create_model(run.data_header());
    follow_plan(copy, run);
    return copy;
  };
  std::unique_ptr<Workers> workers;
  TrialStep trial;
  if (program.settings.workers) {
    workers = std::make_unique<Workers>(program, setup, create_copy, model, *owned[0]);
    trial = [&](std::int64_t n, const DatasetHeader& examples) {
      workers->step_on_zeros(n, examples);
    };
  }
  if (!run.prepare(optimizers, *model.model, model.loss, trial)) return;

  const Share training_share = run.training_share();
  const std::optional<Share> test_share =
      run.has_test_data() ? std::optional(run.test_share()) : std::nullopt;
  run.train([&] {
    auto batches = run.training_iterator(training_share);
    if (program.wrap_batches) batches = program.wrap_batches(std::move(batches));
    std::unique_ptr<Updater> updater;
    LossFunction loss;
    if (workers) {
      updater = workers->create_updater(std::move(batches));
      loss = workers->evaluation_loss();
    } else {
      // An updater of the program's has losses of its own, of which threads would need copies.
      StandardUpdater::Settings step =
          program.create_updater ? run.updater_settings() : run.updater_settings(create_copy);
      std::tie(updater, loss) =
          create_updater(program, setup, std::move(step), std::move(batches), model, optimizers);
    }
    auto trainer =
        std::make_unique<Trainer>(std::move(updater), run.stop_trigger(), run.output_folder());
    if (test_share)
      trainer->extend(create_evaluator(program, run.test_iterator(*test_share), std::move(loss),
                                       model.has_loss));
    run.attach_extensions(*trainer);
    return trainer;
  });
}

void train(const TrainingProgram& program, RankSetup& setup) {
  check_functions(program, setup);
  check_divided_model(program.settings, setup.communicator->size());
  if (program.check) program.check(*setup.communicator);
  TrainingRun run(program, setup);
  if (program.train) return program.train(run);
  train(program, setup, run);
}

}  // namespace
}  // namespace program

TrainingModel create_classifier(std::unique_ptr<Layer> predictor) {
  auto model = std::make_unique<Classifier>(std::move(predictor));
  LossFunction loss = classification_loss(*model);
  return {std::move(model), std::move(loss)};
}

TrainingModel create_part_of_classifier(std::unique_ptr<Layer> predictor, bool has_loss) {
  if (has_loss) return create_classifier(std::move(predictor));
  // Parameters have the paths that they have in a Classifier.
  class Part final : public Module {
   public:
    explicit Part(std::unique_ptr<Layer> predictor) : predictor_(std::move(predictor)) {
      add("predictor", *predictor_);
    }
    Variable operator()(const Variable& x) { return (*predictor_)(x); }

   private:
    std::unique_ptr<Layer> predictor_;
  };
  auto model = std::make_unique<Part>(std::move(predictor));
  Part& part = *model;
  return {std::move(model),
          [&part](const Batch& batch, Observation&) {
            return part(Variable(batch["x"].to(part.device())));
          },
          false};
}

TrainingModel create_stage_of_classifier(std::unique_ptr<MultiNodeChainList> stage,
                                         std::int64_t micro_batches) {
  const auto pipeline = std::make_shared<Pipeline>(*stage, micro_batches);
  TrainingModel model = create_part_of_classifier(
      std::move(stage), /*has_loss=*/pipeline->stage() + 1 == pipeline->stages());
  model.micro_batches = {micro_batches, [pipeline](const auto& forward, const auto& backward) {
                           pipeline->run(forward, backward);
                         }};
  return model;
}

TrainingProgram::TrainingProgram(std::string name, std::string description, std::string example)
    : flags(name, std::move(description),
            example.empty() ? fmt::format("tasuki-run -np 2 {}", name) : std::move(example)) {
  flags.group("Program");
}

int TrainingProgram::run(int argc, char** argv) {
  return run_job(argc, argv, [this](int count, char** words) {
    if (std::exchange(has_run_, true))
      fail_everywhere(ErrorKind::internal,
                      "TrainingProgram::run() was called twice; create a new TrainingProgram for "
                      "each run, with its own flags and defaults");
    program::add_training_flags(flags, settings,
                                {.data = dataset.empty(),
                                 .optimizer = create_optimizer != nullptr,
                                 .augment = stream_images != nullptr,
                                 .images = !program::reads_images(*this)});
    if (recipe) flags.choose_defaults([this] { program::apply_recipe(recipe(), flags, settings); });
    if (auto setup = program::set_up_rank(flags, settings, count, words,
                                          [this] { program::check_flags(*this); }))
      program::train(*this, *setup);
    return 0;
  });
}

}  // namespace tasuki
