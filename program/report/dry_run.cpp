#include "program/report/dry_run.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "communicator/number_bytes.hpp"
#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/report/summary.hpp"
#include "training/batch_memory.hpp"

namespace tasuki::program {
namespace {

std::string in_megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// Bytes of the largest share: examples as stored (as files, if they are) and a number for each.
std::size_t share_bytes(const SplitData& split, Communicator& communicator, int models) {
  const DatasetHeader& header = split.header;
  const Bytes sent = run_on_root(communicator, 0, [&] {
    const std::size_t all = split.dataset
                                ? static_cast<std::size_t>(header.count) * header.fixed_bytes()
                                : split.open()->stored_bytes();
    const auto bytes = static_cast<std::int64_t>(all);
    return encode_numbers({&bytes, 1});
  });
  const auto each =
      static_cast<double>(decode_numbers(sent).at(0)) / static_cast<double>(header.count) +
      sizeof(std::int64_t);
  const ShardPlan shares(header.count, models);
  return static_cast<std::size_t>(each * static_cast<double>(shares.share_size(0)));
}

std::string parameter_table(const NamedOptimizers& optimizers) {
  std::vector<Module::NamedParameter> all;
  std::size_t width = 0;
  std::int64_t count = 0;
  for (const NamedOptimizer& each : optimizers)
    for (Module::NamedParameter& named : each.optimizer->model().parameters()) {
      if (optimizers.size() > 1) named.path = each.name + '/' + named.path;
      width = std::max(width, named.path.size());
      count += named.parameter->shape().count();
      all.push_back(std::move(named));
    }
  std::string text;
  for (const auto& [path, parameter] : all)
    text += fmt::format("  {:<{}}  {:>16}  {:>12}\n", path, width, parameter->shape().text(),
                        parameter->shape().count());
  return text + fmt::format("  {} in all\n", count);
}

// Of the whole model, or of the parts that the ranks of a model have. Collective.
std::string parameters_text(const NamedOptimizers& optimizers, const ModelGrid& grid) {
  std::string text = parameter_table(optimizers);
  if (!grid.is_divided()) return "Parameters:\n" + text;
  const auto of_ranks = gather_bytes(grid.model(), text_to_bytes(text), 0);
  text.clear();
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    text += fmt::format("Parameters of rank {}:\n{}", rank, bytes_to_text(of_ranks[rank]));
  return text;
}

// Host memory for saving, of all optimizers.
struct SavingMemory {
  // What rank 0, or with sharded states each rank, copies for checkpoints: weights and the states
  // that it has.
  std::size_t copied = 0;
  // States that are divided between ranks, or those of other machines, which rank 0 puts together
  // for the snapshot at the end, and for checkpoints unless ranks write them themselves.
  std::size_t gathered = 0;
};

SavingMemory memory_for_saving(const NamedOptimizers& optimizers, const TrainingSettings& settings,
                               const LocalSteps* local_steps) {
  SavingMemory memory;
  for (const NamedOptimizer& each : optimizers) {
    const Optimizer& optimizer = *each.optimizer;
    const std::size_t weights = optimizer.arena().values().bytes();
    const OptimizerStates& states = optimizer.states();
    // With local steps, rank 0 holds the packed states of one group, and all arrays of the others.
    if (local_steps != nullptr)
      memory.gathered +=
          weights * states.names().size() * static_cast<std::size_t>(local_steps->groups());
    else if (states.are_divided() && !optimizer.divides_weights())
      memory.gathered += weights * states.names().size();
    if (!settings.checkpoint_every) continue;
    memory.copied +=
        optimizer.divides_weights()
            ? static_cast<std::size_t>(optimizer.arena().own_slice().size()) * sizeof(float)
            : weights;
    if (states.are_sharded() || !states.are_divided()) memory.copied += states.bytes();
  }
  return memory;
}

// With --reproducible, sums of shards wait for each other in further arrays.
std::size_t most_spare_arrays(const ParameterArena& arena, int threads) {
  const ShardSources* const shards = arena.shards();
  if (shards == nullptr) return 0;
  std::size_t spare = 0;
  for (const std::vector<Range>& roots : shards->of_group)
    spare = std::max(spare, further_arrays(arena, roots,
                                           static_cast<std::size_t>(std::min<std::int64_t>(
                                               threads, roots.back().end - roots.front().begin))));
  return spare;
}

}  // namespace

void print_dry_run(const RankSetup& setup, const TrainingSettings& settings,
                   const NamedOptimizers& optimizers, const LossFunction& loss,
                   const TrainingData& data) {
  const DatasetHeader& train = data.train.header;
  const std::int64_t largest = std::min(largest_pass(settings, setup.grid->models()), train.count);
  BatchMemory batch_memory;
  if (largest > 0)
    batch_memory = measure_step(largest, read_longest(data.train, *setup.communicator),
                                setup.device(), setup.precision.activations, loss);
  // With --reproducible each thread computes a shard at a time.
  std::size_t passes = 1;
  if (settings.reproducible)
    passes = std::min(static_cast<std::size_t>(setup.threads.threads),
                      static_cast<std::size_t>(optimizers.front().optimizer->own_shards().size()));
  const std::size_t activations = passes * batch_memory.held;
  const std::size_t again =
      settings.recompute == Recompute::none
          ? 0
          : passes * (batch_memory.step - std::min(batch_memory.held, batch_memory.step));
  const ShardPlan plan(train.count, setup.grid->models(),
                       static_cast<int>(settings.shards.value_or(0)));
  const std::int64_t batch = global_batch(settings, setup.grid->models());
  const std::int64_t batches = plan.steps_per_epoch(batch);
  const std::int64_t steps = (batches + settings.accumulate - 1) / settings.accumulate;
  const std::int64_t all_steps =
      std::min(steps * settings.epoch, settings.max_iterations.value_or(steps * settings.epoch));
  std::int64_t last = 0;  // examples
  for (std::int64_t i = (steps - 1) * settings.accumulate; i >= 0 && i < batches; ++i)
    last += plan.global_size(i, batch);
  std::size_t gradients = 0, parameters = 0, states = 0;
  for (const NamedOptimizer& each : optimizers) {
    const ParameterArena& arena = each.optimizer->arena();
    gradients += each.optimizer->gradient_bytes() +
                 arena.gradients().bytes() * most_spare_arrays(arena, setup.threads.threads);
    // Including the rounded ones.
    parameters += each.optimizer->weight_bytes();
    states += each.optimizer->states().bytes();
  }
  const auto [copied, gathered] = memory_for_saving(optimizers, settings, setup.local_steps.get());
  std::size_t examples = share_bytes(data.train, *setup.communicator, setup.grid->models());
  if (data.test) examples += share_bytes(*data.test, *setup.communicator, setup.grid->models());

  std::string text = parameters_text(optimizers, *setup.grid);
  text += fmt::format("Example: {}", train.shape_text());
  for (const Field& field : train.fields)
    if (field.classes > 0) text += fmt::format(", {} classes", field.classes);
  text += '\n';
  text += fmt::format("Steps: {} per epoch, {} in all; the last one of an epoch has {} examples\n",
                      steps, all_steps, last);
  const std::size_t of_step = parameters + gradients + states + activations + again;
  text += fmt::format(
      "Memory {}: {} parameters, {} gradients, {} optimizer state, {} activations, {} data",
      setup.grid->is_divided() ? "of rank 0" : "per rank", in_megabytes(parameters),
      in_megabytes(gradients), in_megabytes(states), in_megabytes(activations),
      in_megabytes(examples));
  if (setup.local_steps)
    text += fmt::format(", {} local steps", in_megabytes(setup.local_steps->bytes()));
  if (copied > 0) text += fmt::format(", {} copy for checkpoints", in_megabytes(copied));
  if (gathered > 0)
    text += fmt::format(", {} states gathered on rank 0 to be saved", in_megabytes(gathered));
  // All but the data are in memory, so everything else can be measured.
  const std::size_t host = measure_peak(*setup.communicator, {}).host;
  if (setup.device().is_cpu())
    text += fmt::format(", {} MPI, libraries and memory shared by ranks; {} in all\n",
                        in_megabytes(host - std::min(host, of_step)),
                        in_megabytes(std::max(host, of_step) + examples + copied + gathered));
  else
    text += fmt::format("; {} in all, and {} of host memory for saving, MPI and libraries\n",
                        in_megabytes(of_step + examples), in_megabytes(host + copied + gathered));
  if (settings.recompute != Recompute::none)
    text += fmt::format(
        "Activations: those of a step that recomputes all blocks, and up to {} more "
        "while a block is computed again{}\n",
        in_megabytes(again),
        settings.recompute == Recompute::automatic ? "; --recompute auto also keeps what fits"
                                                   : "");
  text += "Dry run: nothing was trained\n";
  report_on_root(*setup.communicator, text);
}

}  // namespace tasuki::program
