#include "program/report/report.hpp"

#include <fmt/core.h>

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "communicator/number_bytes.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/json.hpp"
#include "core/printable.hpp"
#include "optimizer/power_sgd.hpp"
#include "program/checkpoints.hpp"
#include "program/learning_rate.hpp"
#include "program/optimizer.hpp"
#include "program/resume.hpp"
#include "program/training_flags.hpp"
#include "program/workers.hpp"
#include "tensor/backend.hpp"
#include "training/batch_memory.hpp"
#include "training/step_times.hpp"

namespace tasuki::program {
namespace {

std::string megabytes(std::size_t bytes) {
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

// `whose`: what takes a part of the batch.
std::string batch_text(const TrainingSettings& settings, int ranks, const char* whose) {
  const std::int64_t together = global_batch(settings, ranks);
  const std::int64_t least = together / ranks, most = largest_batch(settings, ranks);
  std::string text = fmt::format("{}{} per {}, {} together", least,
                                 most > least ? fmt::format(" or {}", most) : "", whose, together);
  if (settings.accumulate > 1)
    text += fmt::format("; {} batches in an iteration, {} examples", settings.accumulate,
                        examples_of_update(settings, ranks));
  return text;
}

// A communicator's description begins with its name, which shows what "auto" chose.
std::string describe_communicator(const TrainingSettings& settings,
                                  const Communicator& communicator) {
  std::string description = communicator.describe();
  const std::string name = settings.communicator + ": ";
  if (description.starts_with(name)) description.erase(0, name.size());
  return description;
}

// Compression or error feedback of gradients; empty: there is neither.
std::string describe_exchange(const Optimizer& optimizer, const TrainingSettings& settings) {
  const GradientExchange* const exchange = optimizer.step_exchange().way();
  if (exchange != nullptr && exchange->power_sgd() != nullptr)
    return fmt::format("PowerSGD of rank {}, {} of {} numbers travel", settings.power_sgd_rank,
                       exchange->power_sgd()->count(), exchange->power_sgd()->uncompressed_count());
  if (settings.power_sgd_rank == 0 && !settings.error_feedback) return "";
  return exchange != nullptr ? "with error feedback" : "stay where they are: there is one rank";
}

// A warning; empty if the moments of saves do not matter.
std::string describe_timed_saves(const TrainingSettings& settings, const Optimizer& optimizer) {
  using Unit = CheckpointPeriod::Unit;
  const auto& period = settings.checkpoint_every;
  const bool is_timed = period && (period->unit == Unit::minute || period->unit == Unit::second);
  const Communicator* const ranks = optimizer.communicator();
  if (!is_timed || settings.exchange != ExchangeMode::double_buffered || ranks == nullptr ||
      ranks->size() == 1)
    return "";
  return fmt::format(
      "every {}, by the clock: as gradients are double-buffered, the moments of saves change the "
      "bits of the results; with --checkpoint-every in `it` or `epoch` they are the same again",
      to_text(*period));
}

// Host memory for saving, of all optimizers.
struct SavingMemory {
  // What rank 0, or with sharded states each rank, copies for checkpoints: weights and the states
  // that it has.
  std::size_t copied = 0;
  // States that are divided between ranks, which rank 0 puts together for the snapshot at the end,
  // and for checkpoints unless the states are sharded.
  std::size_t gathered = 0;
};

SavingMemory memory_for_saving(const NamedOptimizers& optimizers,
                               const TrainingSettings& settings) {
  SavingMemory memory;
  for (const NamedOptimizer& each : optimizers) {
    const Optimizer& optimizer = *each.optimizer;
    const std::size_t weights = optimizer.arena().values().bytes();
    const OptimizerStates& states = optimizer.states();
    if (states.are_divided()) memory.gathered += weights * states.names().size();
    if (!settings.checkpoint_every) continue;
    memory.copied += weights;
    if (states.are_sharded() || !states.are_divided()) memory.copied += states.bytes();
  }
  return memory;
}

std::string describe_workers(const RankSetup& setup, const WorkerSettings& workers) {
  const int threads = threads_of_worker(setup.processors, setup.threads, workers.devices.size());
  return fmt::format("{}, {} thread{} each on a CPU, batches split {}",
                     devices_text(workers.devices), threads, threads == 1 ? "" : "s",
                     split_text(workers));
}

std::string describe_length(const TrainingSettings& settings) {
  std::string text = std::to_string(settings.epoch);
  if (settings.early_stopping)
    text += fmt::format(", or until {} has not improved for {}", *settings.early_stopping,
                        settings.patience);
  return text;
}

std::string describe_data(const TrainingData& data) {
  std::string text = fmt::format("{} ({} examples", data.place, data.train.header.count);
  if (data.test) text += fmt::format(", {} to evaluate on", data.test->header.count);
  return text + ")";
}

std::string describe_optimizer(const TrainingSettings& settings, const Optimizer& optimizer,
                               int ranks) {
  std::string text = optimizer.rule().name();
  for (const std::string& parameter : optimizer.hyperparameters()) {
    const double value = optimizer.get(parameter);
    text += fmt::format(", {} {}", parameter, value);
    if (parameter == optimizer.rule().rate_name())
      text += describe_scaling(settings, value, examples_of_update(settings, ranks));
  }
  text += describe_hooks(optimizer, settings);
  if (optimizer.states().are_sharded()) text += ", each rank with the states of its part";
  if (const std::string course = describe_schedule(settings); !course.empty())
    text += fmt::format("; {} {}", optimizer.rule().rate_name(), course);
  return text;
}

// Bytes at the peak, of the rank that used most.
struct PeakMemory {
  std::size_t host = 0, device = 0;
};

// Collective.
PeakMemory measure_peak(Communicator& communicator, const std::vector<Device>& devices) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::size_t of_device = 0;
  for (const Device device : devices)
    if (!device.is_cpu()) of_device = std::max(of_device, backend(device).memory(device).peak);
  const std::int64_t own[] = {usage.ru_maxrss * 1024,  // kilobytes on Linux
                              static_cast<std::int64_t>(of_device)};
  const Tensor peaks = Tensor::from(std::span<const std::int64_t>(own), {2});
  communicator.allreduce(peaks, ReduceOp::max);
  const auto largest = peaks.span<std::int64_t>();
  return {static_cast<std::size_t>(largest[0]), static_cast<std::size_t>(largest[1])};
}

std::string describe_peak(Communicator& communicator, const std::vector<Device>& devices) {
  const PeakMemory peak = measure_peak(communicator, devices);
  const std::string on_device =
      std::ranges::all_of(devices, &Device::is_cpu)
          ? ""
          : fmt::format(" and {:.0f} MB of GPU memory", static_cast<double>(peak.device) / 1e6);
  return fmt::format("at most {:.0f} MB of memory{} per rank", static_cast<double>(peak.host) / 1e6,
                     on_device);
}

// Ranks that read one copy of the weights cannot deviate from each other.
std::string describe_comparison(std::int64_t iterations, const Optimizer& optimizer) {
  const std::vector<int> holders = optimizer.weights().holders();
  std::int64_t copies = 0;
  for (std::size_t rank = 0; rank < holders.size(); ++rank)
    if (holders[rank] == static_cast<int>(rank)) ++copies;
  const std::string when = iterations == 1
                               ? "compared in every iteration"
                               : fmt::format("compared every {} iterations", iterations);
  if (copies == std::ssize(holders)) return fmt::format("{}, of {} ranks", when, copies);
  return fmt::format("{}, {} cop{} of the weights that {} ranks share", when, copies,
                     copies == 1 ? "y" : "ies", holders.size());
}

}  // namespace

BannerLines banner_lines(const TrainingProgram& program, const RankSetup& setup,
                         const NamedOptimizers& optimizers, const TrainingData& data,
                         const std::filesystem::path& out,
                         const std::optional<RunPosition>& resumed) {
  const TrainingSettings& settings = program.settings;
  const Communicator& communicator = *setup.communicator;
  BannerLines lines = {
      {"Num process (COMM_WORLD)", std::to_string(communicator.size())},
      {fmt::format("Using {} communicator", settings.communicator),
       describe_communicator(settings, communicator)},
  };
  const auto add = [&lines](const char* name, std::string value) {
    lines.emplace_back(name, std::move(value));
  };
  const Optimizer& optimizer = *optimizers.front().optimizer;
  if (const std::string text = describe_exchange(optimizer, settings); !text.empty())
    add("Gradients", text);
  if (const std::string text = describe_timed_saves(settings, optimizer); !text.empty())
    add("Checkpoints", text);
  if (program.banner)
    for (auto& line : program.banner()) lines.push_back(std::move(line));
  if (settings.workers) add("Workers", describe_workers(setup, *settings.workers));
  const ModelGrid& grid = *setup.grid;
  if (grid.is_divided())
    add("Model", fmt::format("on {} ranks, {} time{}", grid.model_ranks(), grid.models(),
                             grid.models() == 1 ? "" : "s"));
  add("Num Minibatch-size",
      batch_text(settings, grid.models(), grid.is_divided() ? "model" : "rank"));
  add("Num epoch", describe_length(settings));
  if (settings.sync_bn) add("Batch normalisation", "by the statistics of all ranks");
  add("Data", describe_data(data));
  add("Optimizer", describe_optimizer(settings, optimizer, grid.models()));
  if (optimizers.size() > 1) {
    std::vector<std::string> names;
    for (const NamedOptimizer& each : optimizers) names.push_back(each.name);
    add("Optimizers", fmt::format("one each for {}", join(names, " and ")));
  }
  if (grid.models() > 1) add("Node weights", optimizer.weights().describe());
  if (settings.check_replicas && grid.models() > 1)
    add("Replicas", describe_comparison(*settings.check_replicas, optimizer));
  add("Output", out == settings.out
                    ? settings.out
                    : fmt::format("{} ({} is another run's)", out.string(), settings.out));
  if (settings.init && !setup.continuation.snapshot) add("Weights", *settings.init);
  if (resumed) add("Resumed", describe_resume(setup.continuation, *resumed));
  return lines;
}

void print_plan(const RankSetup& setup, const TrainingSettings& settings,
                const NamedOptimizers& optimizers, const Precision& precision,
                const LossFunction& loss, const TrainingData& data) {
  const DatasetHeader& train = data.train.header;
  const std::int64_t largest = std::min(largest_batch(settings, setup.grid->models()), train.count);
  const std::size_t activations =
      largest > 0 ? measure_step(largest, read_longest(data.train, *setup.communicator),
                                 setup.device(), precision.on(setup.device()), loss)
                        .held
                  : 0;
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
    gradients += arena.gradients().bytes();
    // Including the rounded ones.
    parameters += arena.values().bytes() + (arena.rounded() ? arena.rounded().bytes() : 0);
    states += each.optimizer->states().bytes();
  }
  const auto [copied, gathered] = memory_for_saving(optimizers, settings);
  std::size_t examples = share_bytes(data.train, *setup.communicator, setup.grid->models());
  if (data.test) examples += share_bytes(*data.test, *setup.communicator, setup.grid->models());

  std::string text = parameters_text(optimizers, *setup.grid);
  text += fmt::format("Example: {}", train.shape_text());
  for (const Field& field : train.fields)
    if (field.classes > 0) text += fmt::format(", {} classes", field.classes);
  text += '\n';
  text += fmt::format("Steps: {} per epoch, {} in all; the last one of an epoch has {} examples\n",
                      steps, all_steps, last);
  const std::size_t of_step = parameters + gradients + states + activations;
  text += fmt::format(
      "Memory {}: {} parameters, {} gradients, {} optimizer state, {} activations, {} data",
      setup.grid->is_divided() ? "of rank 0" : "per rank", megabytes(parameters),
      megabytes(gradients), megabytes(states), megabytes(activations), megabytes(examples));
  if (copied > 0) text += fmt::format(", {} copy for checkpoints", megabytes(copied));
  if (gathered > 0)
    text += fmt::format(", {} states gathered on rank 0 to be saved", megabytes(gathered));
  // All but the data are in memory, so everything else can be measured.
  const std::size_t host = measure_peak(*setup.communicator, {}).host;
  if (setup.device().is_cpu())
    text += fmt::format(", {} MPI, libraries and memory shared by ranks; {} in all\n",
                        megabytes(host - std::min(host, of_step)),
                        megabytes(std::max(host, of_step) + examples + copied + gathered));
  else
    text += fmt::format("; {} in all, and {} of host memory for saving, MPI and libraries\n",
                        megabytes(of_step + examples), megabytes(host + copied + gathered));
  text += "Dry run: nothing was trained\n";
  report_on_root(*setup.communicator, text);
}

std::string describe_epochs(std::vector<double> seconds) {
  if (seconds.empty()) return "";
  std::string text = fmt::format("epochs: {:.2f} s (first)", seconds.front());
  seconds.erase(seconds.begin());
  if (!seconds.empty()) {
    const auto middle = seconds.begin() + std::ssize(seconds) / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    double median = *middle;
    if (seconds.size() % 2 == 0) median = (median + *std::max_element(seconds.begin(), middle)) / 2;
    text += fmt::format(", {:.2f} s (median of the other {})", median, seconds.size());
  }
  return text;
}

// Reports the end of each epoch, observes nothing, and keeps what the summary says in saved states.
class RunSummary::EpochEnds final : public Extension {
 public:
  explicit EpochEnds(RunSummary& summary) : summary_(summary) {}
  std::string default_name() const override { return "RunSummary"; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  void initialize(Trainer&) override { summary_.begin(); }
  void run(Trainer& trainer) override { summary_.note_epoch(trainer.observation()); }
  void serialize(const Serializer& serializer) override { summary_.serialize(serializer); }

 private:
  RunSummary& summary_;
};

RunSummary::RunSummary(Trainer& trainer, std::vector<Device> devices)
    : trainer_(trainer), devices_(std::move(devices)) {
  trainer.extend(std::make_unique<EpochEnds>(*this));
}

void RunSummary::begin() {
  first_iteration_ = trainer_.updater().iteration();
  first_seconds_ = trainer_.elapsed_time();
  if (trainer_.updater().state().step == 0) epoch_began_at_ = first_seconds_;
}

void RunSummary::note_epoch(const Observation& seen) {
  const double now = trainer_.elapsed_time();
  if (epoch_began_at_) epoch_seconds_.push_back(now - *epoch_began_at_);
  epoch_began_at_ = now;
  if (const auto found = seen.mean("validation/main/accuracy"))
    accuracies_.push_back({*found, trainer_.updater().epoch()});
}

RunSummary::Part RunSummary::part() const {
  const std::int64_t steps = trainer_.updater().iteration() - first_iteration_;
  if (steps == 0) return before_;
  return {steps, trainer_.elapsed_time() - first_seconds_, epoch_seconds_, accuracies_,
          trainer_.updater().times()};
}

namespace {

// Reads what all ranks have loaded alike, so that all meet its errors.
void for_all_ranks(const std::function<void()>& read) try { read(); } catch (const Error& error) {
  throw Error(error.kind(), error.what(), ErrorScope::every_rank);
}

}  // namespace

void RunSummary::serialize(const Serializer& serializer) {
  Part now = serializer.is_loading() ? Part() : part();
  nlohmann::json accuracies = nlohmann::json::array();
  for (const Accuracy& each : now.accuracies) accuracies.push_back({each.value, each.epoch});
  std::string text = json_text(nlohmann::json{{"steps", now.steps},
                                              {"seconds", now.seconds},
                                              {"epochs", now.epochs},
                                              {"accuracies", accuracies}});
  serializer("part", text);
  const std::vector<Bytes> times =
      serializer.of_every_rank("times", std::as_bytes(std::span(now.times)));
  if (!serializer.is_loading()) return;
  for_all_ranks([&] { load(text); });
  const Communicator* const ranks = serializer.communicator();
  const auto rank = static_cast<std::size_t>(ranks ? ranks->rank() : 0);
  const auto size = static_cast<std::size_t>(ranks ? ranks->size() : 1);
  std::vector<RankTimes> decoded;
  for_all_ranks([&] {
    for (const Bytes& each : times) decoded.push_back(decode_step_times(each));
  });
  if (decoded.size() == size) before_.times = decoded[rank];
}

void RunSummary::load(const std::string& text) {
  constexpr std::size_t most_shown = 60;
  const std::string place = "the summary in the snapshot";
  try {
    const nlohmann::json found = parse_json(text, place);
    const auto refuse = [&](const char* expected, const nlohmann::json& value) {
      fail(ErrorKind::data, "{}: expected {}, found {}", place, expected,
           printable(json_text(value), most_shown));
    };
    const auto count = [&](const nlohmann::json& value) {
      const auto number = integer_in(value);
      if (!number || *number < 0) refuse("a number of steps or epochs", value);
      return *number;
    };
    const auto seconds = [&](const nlohmann::json& value) {
      if (!value.is_number() || !(value.get<double>() >= 0)) refuse("seconds from 0", value);
      return value.get<double>();
    };
    before_ = {};
    before_.steps = count(found.at("steps"));
    before_.seconds = seconds(found.at("seconds"));
    for (const auto& each : found.at("epochs")) before_.epochs.push_back(seconds(each));
    for (const auto& each : found.at("accuracies")) {
      const nlohmann::json& value = each.at(0);  // null: not finite
      before_.accuracies.push_back(
          {value.is_null() ? std::nan("") : value.get<double>(), count(each.at(1))});
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "{}: {}", place, error.what());
  }
}

RankTimes RunSummary::times() const {
  return part().times;
}

void RunSummary::print(Communicator& communicator, const std::filesystem::path& out) const {
  const std::string peak = describe_peak(communicator, devices_);
  const Part done = part();
  std::string text = fmt::format(
      "{} steps in {:.1f} s ({:.1f} per second), {}; results in {}\n", done.steps, done.seconds,
      static_cast<double>(done.steps) / std::max(done.seconds, 1e-9), peak, out.string());
  if (!done.epochs.empty()) text += describe_epochs(done.epochs) + '\n';
  if (!done.accuracies.empty()) {
    const Accuracy best = *std::ranges::max_element(done.accuracies, {}, [](const Accuracy& each) {
      return std::isfinite(each.value) ? each.value : -std::numeric_limits<double>::infinity();
    });
    text += fmt::format("validation accuracy: {:.4f}; best: {:.4f} after epoch {}\n",
                        done.accuracies.back().value, best.value, best.epoch);
  }
  text += step_time_table(gather_step_times(done.times, &communicator));
  report_on_root(communicator, text);
}

}  // namespace tasuki::program
