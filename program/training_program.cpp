#include "program/training_program.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "job/run_job.hpp"
#include "nn/classifier.hpp"
#include "nn/normalization.hpp"
#include "parallel/multi_node_batch_norm.hpp"
#include "program/batch_size.hpp"
#include "program/data.hpp"
#include "program/engine.hpp"
#include "program/extensions.hpp"
#include "program/initial_state.hpp"
#include "program/intact_snapshot.hpp"
#include "program/optimizer.hpp"
#include "program/report/about.hpp"
#include "program/report/finished_file.hpp"
#include "program/report/report.hpp"
#include "program/report/step_times_file.hpp"
#include "program/start/computing.hpp"
#include "program/start/link.hpp"
#include "program/start/processors.hpp"
#include "program/start/setup.hpp"
#include "training/checkpoints/course.hpp"
#include "training/extensions/evaluator.hpp"

namespace tasuki {
namespace program {
namespace {

std::unique_ptr<Optimizer> optimizer_of(const TrainingProgram& program, int ranks) {
  auto optimizer = program.create_optimizer ? program.create_optimizer()
                                            : tasuki::create_optimizer(program.settings.optimizer);
  check_decay(program.flags, program.settings, *optimizer);
  configure_optimizer(*optimizer, program.settings, ranks);
  return optimizer;
}

// Whether flags fit each other, as far as that depends neither on the ranks nor on the machine.
void check_flags(const TrainingProgram& program) {
  check_training_flags(program.flags, program.settings);
  check_device_flags(program.settings);
  check_divided_model(program.settings, /*ranks=*/1);
  check_computing(program.settings, devices_in_flags(program.settings));
  if (program.check_flags) program.check_flags();
  if (!program.create_optimizer) optimizer_of(program, /*ranks=*/1);
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

// The model on the device; rank 0 has the weights that the run starts from.
TrainingModel initial_model(const TrainingProgram& program, const DatasetHeader& data,
                            const RankSetup& setup) {
  const bool is_part = setup.grid->is_divided() || !program.create_model;
  TrainingModel model =
      is_part ? program.create_part(data, setup.grid->model()) : program.create_model(data);
  const auto parameters = model.model->parameters();
  if (!std::ranges::all_of(parameters,
                           [](const auto& each) { return each.parameter->has_values(); }))
    model.model->initialize(static_cast<std::uint64_t>(program.settings.seed));
  if (!setup.continuation.snapshot) {
    const std::optional<std::string>& init = program.settings.init;
    if (init) load_initial_weights(*init, *model.model, *setup.communicator, *setup.grid);
    for (const TrainingModel::Part& part : model.parts)
      if (!part.init.empty())
        load_initial_weights(part.init, part.module, *setup.communicator, *setup.grid);
  }
  model.model->to(setup.device());
  return model;
}

void synchronise_batch_norm(Module& model, const Communicator& communicator) {
  if (convert_to_multi_node_batch_norm(model, communicator) == 0)
    fail_everywhere(ErrorKind::usage,
                    "--sync-bn: the model has no batch normalisation; leave --sync-bn out");
}

// For steps that measure how much memory they take: each rank runs them alone.
void normalise_locally(Module& model) {
  for (Module* module : model.modules())
    if (auto* const layer = dynamic_cast<BatchNorm*>(module)) layer->normalise_by(nullptr);
}

// One for each part of the model; `local` becomes the first.
std::vector<std::unique_ptr<Optimizer>> multi_node_optimizers(const TrainingProgram& program,
                                                              const RankSetup& setup,
                                                              const TrainingModel& model,
                                                              std::unique_ptr<Optimizer> local) {
  const TrainingSettings& settings = program.settings;
  const auto set_up = [&](Module& module) {
    if (!local) local = optimizer_of(program, setup.grid->models());
    auto optimizer = create_multi_node_optimizer(std::move(local), setup.grid->data());
    optimizer->set_exchange(exchange_settings(settings));
    optimizer->states().shard(settings.shard_optimizer);
    optimizer->weights().share(settings.node_weights == NodeWeights::shared,
                               socket_of(find_processors().cpus).value_or(-1));
    optimizer->setup(module);
    return optimizer;
  };
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  if (model.parts.empty()) optimizers.push_back(set_up(*model.model));
  for (const TrainingModel::Part& part : model.parts) optimizers.push_back(set_up(part.module));
  return optimizers;
}

NamedOptimizers names_of(const std::vector<std::unique_ptr<Optimizer>>& optimizers,
                         const TrainingModel& model) {
  NamedOptimizers named;
  for (std::size_t i = 0; i < optimizers.size(); ++i)
    named.push_back({model.parts.empty() ? "main" : model.parts[i].name, optimizers[i].get()});
  return named;
}

std::optional<RunPosition> find_position(const TrainingProgram& program, const RankSetup& setup,
                                         const NamedOptimizers& optimizers, std::int64_t examples) {
  if (!setup.continuation.snapshot) return std::nullopt;
  return check_resume(setup.continuation, program.settings, optimizers,
                      program.wrap_batches ? std::nullopt : std::optional(examples),
                      program.length_buckets ? program.length_buckets->steps : 0,
                      *setup.communicator, *setup.grid);
}

// Prints that nothing is left to do, if so: the run is at its end, and has made all that follows.
bool is_over(const TrainingSettings& settings, const RankSetup& setup,
             const std::optional<RunPosition>& position) {
  if (!position) return false;
  const std::string end = describe_end(setup.continuation, settings, *position);
  if (end.empty()) return false;
  Communicator& communicator = *setup.communicator;
  const bool has_all = is_finished(output_folder_of(*setup.continuation.snapshot),
                                   position->iteration, communicator);
  if (communicator.rank() == 0) {
    if (has_all)
      log_warning("nothing to do: {}", end);
    else
      log_info("writing what is missing at the end of the run: {}", end);
  }
  return has_all;
}

// Before data are read, which may take long: should the run be killed then, --resume auto goes on
// from what this run was to go on from, too. (With an iterator of the program's that may still be
// refused by resume_training(), so only Trainer::run() names it.)
void name_origin(const TrainingProgram& program, const RankSetup& setup,
                 const OutputFolder& output) {
  if (!program.wrap_batches && setup.communicator->rank() == 0)
    start_course(output.path(), *setup.continuation.snapshot);
}

// ChainerMN's training program: a multi-node optimizer for the model, the data scattered from rank
// 0, a trainer with a multi-node evaluator and the extensions of the flags; banner, table, summary.
// With --dry-run it prints the plan instead, after the same checks of --out and --resume; with
// --find-batchsize the largest batch. Collective.
void run_training(const TrainingProgram& program, RankSetup& setup) {
  const TrainingSettings& settings = program.settings;
  Communicator& comm = *setup.communicator;
  const ModelGrid& grid = *setup.grid;

  TASUKI_CHECK(program.create_part || !grid.is_divided(),
               "a model on several ranks needs create_part");
  TASUKI_CHECK(!program.create_updater || (!program.create_part && !settings.workers),
               "create_updater is for whole models on one device");
  TASUKI_CHECK((program.create_model || program.create_part) &&
                   (program.train_data || program.stream_images || !program.dataset.empty()),
               "a TrainingProgram needs create_model, and train_data, stream_images or the name of "
               "a data set");
  check_divided_model(settings, comm.size());
  if (program.check) program.check(comm);
  auto local_optimizer = optimizer_of(program, grid.models());
  const Precision precision = choose_computing(settings, setup.devices);

  TrainingData data = find_data(program, setup);
  if (const auto& from = setup.continuation.snapshot)
    check_vocabularies(from->string(), data.vocabularies, comm, grid);
  else if (settings.init)
    check_vocabularies(*settings.init, data.vocabularies, comm, grid);
  TrainingModel model = initial_model(program, data.train.header, setup);
  if (settings.sync_bn) synchronise_batch_norm(*model.model, grid.data());
  const auto owned = multi_node_optimizers(program, setup, model, std::move(local_optimizer));
  const NamedOptimizers optimizers = names_of(owned, model);
  const auto engine =
      create_engine({program, setup, data.train.header, model, optimizers, precision});

  const auto position = find_position(program, setup, optimizers, data.train.header.count);
  const bool has_ended = !settings.find_batchsize && is_over(settings, setup, position);
  const auto say_banner = [&](const std::filesystem::path& out) {
    print_banner(setup, banner_lines(program, setup, optimizers, data, out, position));
  };
  if (has_ended && !settings.dry_run) return;
  // Files that cannot be read are found last, but before anything is written.
  data.check_files(settings, setup);
  if (settings.dry_run) {
    say_banner(find_output_folder(setup, settings)->name());
    normalise_locally(*model.model);
    print_plan(setup, settings, optimizers, precision, model.loss, data);
    return;
  }

  const auto output = settings.find_batchsize ? nullptr : take_output_folder(setup, settings);
  if (output && position) name_origin(program, setup, *output);
  data.scatter(settings, comm, grid.model_ranks());
  if (settings.find_batchsize) {
    normalise_locally(*model.model);
    return print_largest_batch(setup, settings, data, *engine);
  }

  std::optional<Trainer> trainer;
  const auto train = [&] {
    auto batches = training_batches(data, settings, *engine, grid.models());
    if (program.wrap_batches) batches = program.wrap_batches(std::move(batches));
    auto updater = engine->create_updater(std::move(batches));
    trainer.emplace(std::move(updater), stop_trigger(settings), output);
    if (data.test)
      trainer->extend(create_evaluator(program,
                                       test_batches(data, settings, *engine, grid.models()),
                                       engine->evaluation_loss(), model.has_loss));
    RunSummary summary(*trainer, setup.devices);
    extend(*trainer, program, setup, data);

    remove_old_results(comm, settings, *output);
    write_about(program, setup, data, *output);
    if (setup.links.between || setup.links.inside) keep_links(comm, setup.links, *output);
    if (!settings.quiet) say_banner(output->name());
    remove_finished(comm, *output);
    trainer->run();
    if (!settings.quiet) summary.print(comm, output->name());
    std::vector<std::string> files;
    if (write_step_times(summary.times(), comm, *output)) files.emplace_back(step_times_file);
    write_finished(*trainer, files, comm, *output);
  };
  // Finding out what would fit takes steps that each rank can make alone.
  if (grid.is_divided()) return train();
  train_within_memory(setup, settings, data, *engine, train, [&] {
    trainer.reset();
    normalise_locally(*model.model);
  });
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
      program::run_training(*this, *setup);
    return 0;
  });
}

}  // namespace tasuki
