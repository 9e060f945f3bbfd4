#include "program/training_run.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/trace.hpp"
#include "nn/normalization.hpp"
#include "nn/recompute.hpp"
#include "nn/value_memory.hpp"
#include "optimizer/product_sums.hpp"
#include "parallel/multi_node_batch_norm.hpp"
#include "program/data/chosen_parameters.hpp"
#include "program/data/initial_weights.hpp"
#include "program/data/kept_data.hpp"
#include "program/data/training_data.hpp"
#include "program/extensions.hpp"
#include "program/largest_batch.hpp"
#include "program/recompute_loss.hpp"
#include "program/report/about.hpp"
#include "program/report/banner.hpp"
#include "program/report/dry_run.hpp"
#include "program/report/model_table.hpp"
#include "program/report/result_files.hpp"
#include "program/report/summary.hpp"
#include "program/start/optimizer.hpp"
#include "program/start/processors.hpp"
#include "program/start/rank_setup.hpp"
#include "program/start/remembered_links.hpp"
#include "program/start/resume.hpp"
#include "program/training_program.hpp"
#include "saving/output_layout.hpp"
#include "saving/saved_states.hpp"
#include "tensor/storage.hpp"
#include "training/batch_memory.hpp"

namespace tasuki {

using namespace program;

namespace {

// For steps that measure how much memory they take: each rank runs them alone.
void normalise_locally(Module& model) {
  for (Module* module : model.modules())
    if (auto* const layer = dynamic_cast<BatchNorm*>(module)) layer->normalise_by(nullptr);
}

std::vector<std::string> paths_of_parameters(const Module& model) {
  std::vector<std::string> paths;
  for (const auto& [path, parameter] : model.all_parameters()) paths.push_back(path);
  return paths;
}

// Of those with parameters, and those above them.
std::vector<std::string> paths_of_modules(const Module& model) {
  std::set<std::string> paths;
  for (std::string path : paths_of_parameters(model))
    for (std::size_t end = path.rfind('/'); end != path.npos; end = path.rfind('/')) {
      path.resize(end);
      paths.insert(path);
    }
  return {paths.begin(), paths.end()};
}

std::optional<RunPosition> find_position(const TrainingProgram& program, const RankSetup& setup,
                                         const NamedOptimizers& optimizers, std::int64_t examples) {
  if (!setup.resumption.from) return std::nullopt;
  return check_resume(setup.resumption, program.settings, optimizers,
                      program.wrap_batches ? std::nullopt : std::optional(examples),
                      program.length_buckets ? program.length_buckets->steps : 0,
                      *setup.communicator, *setup.grid);
}

// Prints that nothing is left to do, if so: the run is at its end, and has made all that follows.
bool is_over(const TrainingSettings& settings, const RankSetup& setup,
             const std::optional<RunPosition>& position) {
  if (!position) return false;
  const std::string end = describe_end(setup.resumption, settings, *position);
  if (end.empty()) return false;
  Communicator& communicator = *setup.communicator;
  const bool has_all =
      is_finished(output_folder_of(setup.resumption.from->path), position->iteration, communicator);
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
    record_start(output.path(), setup.resumption.from->path);
}

}  // namespace

struct TrainingRun::Parts {
  const TrainingProgram& program;
  RankSetup& setup;
  std::unique_ptr<Optimizer> first_optimizer;  // its flags are checked before data are looked for
  TrainingData data;

  Module* whole = nullptr;  // from initialize() on
  // From prepare() on.
  NamedOptimizers optimizers;
  Module* model = nullptr;
  TrialStep trial;
  std::optional<RunPosition> position;  // that the run goes on from
  std::shared_ptr<OutputFolder> output;
  std::optional<RunSummary> summary;  // from attach_extensions() on
  const std::shared_ptr<RecomputePlan> plan;
  bool follows_plan = false;  // recomputing() was called

  Parts(const TrainingProgram& of_program, RankSetup& of_rank)
      : program(of_program),
        setup(of_rank),
        first_optimizer(make_optimizer()),
        data(find_data(program, program.flags.program(), settings(), setup)),
        plan(std::make_shared<RecomputePlan>(mode_of(settings().recompute))) {}
  const TrainingSettings& settings() const { return program.settings; }
  std::unique_ptr<Optimizer> make_optimizer() const {
    return program::create_optimizer(
        program.flags, settings(), setup.examples_of_update(settings()), program.create_optimizer);
  }
  BannerLines banner(const std::filesystem::path& out) const {
    return banner_lines(setup, settings(), optimizers, data, out, position,
                        program.banner ? program.banner() : BannerLines());
  }
};

TrainingRun::TrainingRun(const TrainingProgram& program, RankSetup& setup)
    : parts_(std::make_unique<Parts>(program, setup)) {
  const auto& from = setup.resumption.from;
  const std::optional<std::string>& init = program.settings.init;
  if (from || init)
    check_vocabularies(from ? from->path.string() : *init, parts_->data.vocabularies,
                       *setup.communicator, *setup.grid);
}

TrainingRun::~TrainingRun() = default;

Communicator& TrainingRun::communicator() const {
  return *setup().communicator;
}

Communicator& TrainingRun::gradient_communicator() const {
  return setup().exchanging();
}

Device TrainingRun::device() const {
  return setup().device();
}

const DatasetHeader& TrainingRun::data_header() const {
  return data().train.header;
}

RankSetup& TrainingRun::setup() const {
  return parts_->setup;
}

TrainingData& TrainingRun::data() const {
  return parts_->data;
}

// Where nodes divide weights, no rank has room for all first values at once.
void TrainingRun::draw(Module& model) const {
  const auto seed = static_cast<std::uint64_t>(parts_->settings().seed);
  if (sharding_of(parts_->settings()) == Sharding::weights)
    model.initialize_later(seed);
  else
    model.initialize(seed);
}

void TrainingRun::initialize(Module& model) {
  const TrainingSettings& settings = parts_->settings();
  parts_->whole = &model;
  if (!std::ranges::all_of(model.parameters(),
                           [](const auto& each) { return each.parameter->has_values(); }))
    draw(model);
  if (settings.init && !setup().resumption.from)
    load_initial_weights({*settings.init, settings.init_map, settings.init_skip,
                          sharding_of(settings) == Sharding::weights},
                         model, communicator(), *setup().grid);
  check_patterns("--freeze", settings.freeze, paths_of_parameters(model), communicator());
  check_patterns("--shard-unit", settings.shard_unit, paths_of_modules(model), communicator());
  if (settings.sync_bn && convert_to_multi_node_batch_norm(model, setup().grid->data()) == 0)
    fail_everywhere(ErrorKind::usage,
                    "--sync-bn: the model has no batch normalisation; leave --sync-bn out");
}

std::unique_ptr<Optimizer> TrainingRun::create_optimizer() {
  if (parts_->first_optimizer) return std::move(parts_->first_optimizer);
  return parts_->make_optimizer();
}

void TrainingRun::configure(Optimizer& optimizer, Module& model) {
  const TrainingSettings& settings = parts_->settings();
  optimizer.set_exchange(exchange_settings(settings));
  const Sharding sharding = sharding_of(settings);
  optimizer.shard(sharding, settings.shard_unit);
  // A node's ranks keep divided weights together, whatever their sockets.
  optimizer.weights().share(
      settings.node_weights == NodeWeights::shared,
      sharding == Sharding::weights ? -1 : socket_of(find_processors().cpus).value_or(-1));
  if (settings.reproducible) optimizer.set_shards(settings.shards.value());
  if (parts_->whole != nullptr) freeze_chosen(settings.freeze, *parts_->whole, model, optimizer);
  optimizer.setup(model);
  if (settings.workers) {
    // On CPUs they share rounded weights as well; elsewhere operations round weights that they use.
    if (std::ranges::all_of(settings.workers->devices, &Device::is_cpu))
      optimizer.compute_in(setup().precision.activations);
    return;
  }
  const ModelGrid& grid = *setup().grid;
  Communicator* const holders = grid.is_divided() ? &grid.model() : nullptr;
  if (setup().precision.scales_losses) optimizer.guard().scale_losses({}, holders);
  if (settings.on_nan == OnNan::skip) optimizer.guard().skip_non_finite(holders);
  optimizer.compute_in(setup().precision.activations);
}

bool TrainingRun::prepare(Optimizer& optimizer, const LossFunction& loss) {
  return prepare({{"main", &optimizer}}, optimizer.model(), loss);
}

bool TrainingRun::prepare(const NamedOptimizers& optimizers, Module& model,
                          const LossFunction& loss, TrialStep trial) {
  Parts& parts = *parts_;
  const TrainingSettings& settings = parts.settings();
  if (settings.recompute != Recompute::none && !parts.follows_plan)
    fail_everywhere(
        ErrorKind::usage,
        "--recompute: this program recomputes nothing (TrainingRun::recomputing); leave "
        "the flag out");
  if (!trial)
    trial = [this, loss](std::int64_t n, const DatasetHeader& examples) {
      measure_step(n, examples, device(), setup().precision.activations, loss);
    };
  parts.optimizers = optimizers;
  parts.model = &model;
  if (optimizers.size() > 1 && std::ranges::any_of(optimizers, [](const NamedOptimizer& each) {
        return each.optimizer->divides_weights();
      }))
    fail_everywhere(
        ErrorKind::usage,
        "--shard weights: this program trains several models, whose passes would gather "
        "weights at the same time; choose --shard gradients");
  if (setup().local_steps) {
    std::vector<Optimizer*> followed;
    for (const NamedOptimizer& each : optimizers) followed.push_back(each.optimizer);
    setup().local_steps->follow(std::move(followed));
  }
  // Steps that one rank makes alone gather no weights.
  parts.trial = [trial = std::move(trial)](std::int64_t n, const DatasetHeader& examples) {
    const UnreadValues unread;
    trial(n, examples);
  };
  parts.position = find_position(parts.program, setup(), optimizers, parts.data.train.header.count);
  const bool has_ended =
      !settings.find_batchsize && !settings.summary && is_over(settings, setup(), parts.position);
  if (has_ended && !settings.dry_run) return false;
  // Files that cannot be read are found last, but before anything is written.
  parts.data.check_files(settings, setup());
  if (settings.dry_run) {
    print_banner(setup(), parts.banner(find_output_folder(setup(), settings)->name()));
    normalise_locally(model);
    print_dry_run(setup(), settings, optimizers, loss, parts.data);
    return false;
  }
  if (settings.summary) {
    normalise_locally(model);
    print_model_summary(setup(), model, loss, parts.data.train);
    return false;
  }
  if (settings.find_batchsize) {
    parts.data.keep_training_share(training_share(), settings, communicator());
    if (has_test_data()) parts.data.keep_test_share(test_share(), settings);
    normalise_locally(model);
    print_largest_batch(setup(), settings, parts.data, parts.trial);
    return false;
  }
  parts.output = take_output_folder(setup(), settings);
  if (parts.position) name_origin(parts.program, setup(), *parts.output);
  return true;
}

OpenSource TrainingRun::training_source() {
  return [this] { return data().train.take_source(); };
}

OpenSource TrainingRun::test_source() {
  TASUKI_CHECK(has_test_data(), "the program has no test data");
  return [this] { return data().test->take_source(); };
}

ScatterOptions TrainingRun::scatter_options() const {
  return dealing_of(parts_->settings(), setup().grid->model_ranks());
}

Share TrainingRun::training_share() {
  return data().train.deal(communicator(), scatter_options());
}

Share TrainingRun::test_share() {
  TASUKI_CHECK(has_test_data(), "the program has no test data");
  return data().test->deal(communicator(),
                           test_dealing_of(parts_->settings(), setup().grid->model_ranks()));
}

bool TrainingRun::has_test_data() const {
  return data().test.has_value();
}

std::unique_ptr<Iterator> TrainingRun::training_iterator(Share share) {
  data().keep_training_share(std::move(share), parts_->settings(), communicator());
  return training_batches(data(), parts_->settings(), setup());
}

std::unique_ptr<Iterator> TrainingRun::test_iterator(Share share) {
  TASUKI_CHECK(has_test_data(), "the program has no test data");
  data().keep_test_share(std::move(share), parts_->settings());
  return test_batches(data(), parts_->settings(), setup());
}

template <class Loss>
Loss TrainingRun::follow_plan(Loss loss) const {
  parts_->follows_plan = true;
  // A part of a divided model may have none.
  const bool needs_blocks =
      parts_->settings().recompute != Recompute::none && !setup().grid->is_divided();
  return following(parts_->plan, needs_blocks, device(), std::move(loss));
}

LossFunction TrainingRun::recomputing(LossFunction loss) const {
  return follow_plan(std::move(loss));
}

LossesFunction TrainingRun::recomputing(LossesFunction losses) const {
  return follow_plan(std::move(losses));
}

// --recompute auto: a trial step, and what fits beside it is kept.
void TrainingRun::choose_blocks() {
  const TrainingSettings& settings = parts_->settings();
  if (settings.recompute != Recompute::automatic || parts_->plan->blocks() > 0) return;
  std::vector<Tensor> statistics;
  const std::vector<Module::NamedBuffer> buffers = parts_->model->buffers();
  statistics.reserve(buffers.size());
  for (const Module::NamedBuffer& buffer : buffers) statistics.push_back(buffer.tensor->clone());
  const std::int64_t examples = largest_pass(settings, setup().grid->models());
  RecomputePlan& plan = *parts_->plan;
  auto [step, left] = [&] {
    const StepScope trial;  // that does not succeed, so that nothing counts it
    return room_beside_step(setup(), settings, data(), parts_->trial, examples);
  }();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor->copy_from(statistics[i]);
  // With --reproducible each thread computes a shard at a time, and sums of shards wait, as do
  // operands of products.
  std::size_t threads = 1, taken = 0;
  for (const NamedOptimizer& each : parts_->optimizers) {
    if (each.optimizer->shards() == 0) continue;
    const ParameterArena& arena = each.optimizer->arena();
    threads = std::min(static_cast<std::size_t>(setup().threads.threads),
                       static_cast<std::size_t>(each.optimizer->own_shards().size()));
    taken += arena.gradients().bytes() * further_arrays(arena, arena.own_roots(), threads);
  }
  taken += (threads - 1) * step;
  const std::size_t kept = plan.keep_within((left - std::min(taken, left)) / threads);
  std::size_t all = 0;
  for (const auto& cost : plan.costs()) all += cost ? cost->bytes : 0;
  log_info("--recompute auto: {} of {} blocks are recomputed; {:.0f} MB of {:.0f} MB are kept",
           plan.recomputed(), plan.blocks(), static_cast<double>(kept) / 1e6,
           static_cast<double>(all) / 1e6);
}

StandardUpdater::Settings TrainingRun::updater_settings(
    std::function<TrainingModel()> create_copy) const {
  const TrainingSettings& settings = parts_->settings();
  StandardUpdater::Settings step;
  step.seed = static_cast<std::uint64_t>(settings.seed);
  step.graph = settings.graph;
  step.accumulate = settings.accumulate;
  step.local_steps = setup().local_steps.get();
  step.shard_threads = static_cast<std::size_t>(setup().threads.threads);
  step.create_copy = std::move(create_copy);
  return step;
}

std::unique_ptr<Trigger> TrainingRun::stop_trigger() const {
  return program::stop_trigger(parts_->settings());
}

std::shared_ptr<OutputFolder> TrainingRun::output_folder() const {
  TASUKI_CHECK(parts_->output, "TrainingRun::prepare has not returned true");
  return parts_->output;
}

void TrainingRun::attach_extensions(Trainer& trainer) {
  parts_->summary.emplace(trainer, setup().devices);
  Shift* const schedule = extend_trainer(trainer, parts_->program, setup(), parts_->data);
  if (setup().resumption.from)
    resume_training(setup().resumption, trainer, parts_->settings(), schedule, *setup().grid);
}

void TrainingRun::train(const std::function<std::unique_ptr<Trainer>()>& create_trainer) {
  Parts& parts = *parts_;
  const TrainingSettings& settings = parts.settings();
  OutputFolder& output = *output_folder();
  std::unique_ptr<Trainer> trainer;
  const auto run = [&] {
    trainer = create_trainer();
    if (setup().local_steps && trainer->updater().asked_to_stop() == std::nullopt)
      fail_everywhere(ErrorKind::usage,
                      "--sync-every: this program has an updater of its own, which does not "
                      "synchronise machines (BatchUpdater::Settings::local_steps); leave the flag "
                      "out");
    choose_blocks();
    TASUKI_CHECK(parts.summary, "TrainingRun::attach_extensions was not called");
    remove_old_results(communicator(), settings, output);
    write_about(parts.program.flags, settings, parts.program, setup(), parts.data, output);
    if (setup().links.between || setup().links.inside)
      keep_links(communicator(), setup().links, output);
    if (!settings.quiet) print_banner(setup(), parts.banner(output.name()));
    remove_finished(communicator(), output);
    trainer->run();
    if (!settings.quiet) parts.summary->print(communicator(), output.name());
    std::vector<std::string> files;
    if (write_step_times(parts.summary->times(), communicator(), output))
      files.emplace_back(step_times_file);
    write_finished(*trainer, files, communicator(), output);
  };
  // Finding out what would fit takes steps that each rank can make alone.
  if (setup().grid->is_divided()) return run();
  run_within_memory(setup(), settings, parts.data, parts.trial, *parts.plan, run, [&] {
    trainer.reset();
    normalise_locally(*parts.model);
  });
}

}  // namespace tasuki
