#include "program/report/banner.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"
#include "optimizer/power_sgd.hpp"
#include "program/data/training_data.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/device.hpp"
#include "program/start/optimizer.hpp"
#include "program/start/rank_setup.hpp"
#include "program/start/resume.hpp"

namespace tasuki::program {
namespace {

// `whose`: what takes a part of the batch.
std::string batch_text(const TrainingSettings& settings, int ranks, const char* whose) {
  const std::int64_t together = global_batch(settings, ranks);
  const std::int64_t least = together / ranks, most = largest_rank_batch(settings, ranks);
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
  const GradientExchange* const exchange = optimizer.step_exchange().gradient_exchange();
  if (exchange != nullptr && exchange->power_sgd() != nullptr)
    return fmt::format("PowerSGD of rank {}, {} of {} numbers travel", settings.power_sgd_rank,
                       exchange->power_sgd()->count(), exchange->power_sgd()->uncompressed_count());
  if (settings.power_sgd_rank == 0 && !settings.error_feedback) return "";
  return exchange != nullptr ? "with error feedback" : "stay where they are: there is one rank";
}

// A warning; empty if the moments of saves do not matter.
std::string describe_timed_saves(const TrainingSettings& settings, const Optimizer& optimizer,
                                 bool is_local) {
  const auto& period = settings.checkpoint_every;
  const bool is_timed =
      period && (period->unit == PeriodUnit::minute || period->unit == PeriodUnit::second);
  const Communicator* const ranks = optimizer.communicator();
  const bool is_late =
      settings.exchange == ExchangeMode::double_buffered && ranks != nullptr && ranks->size() > 1;
  if (!is_timed || (!is_late && !is_local)) return "";
  return fmt::format(
      "every {}, by the clock: with {} the times of saves affect the bits of the results; "
      "--checkpoint-every in `it` or `epoch` avoids that",
      to_text(*period), is_local ? "local steps" : "double-buffered gradients");
}

std::string describe_shards(const TrainingSettings& settings, int ranks) {
  const std::int64_t shards = settings.shards.value(), together = global_batch(settings, ranks);
  const std::int64_t least = together / shards;
  return fmt::format("{} shards of {}{} examples, {} on each rank, each computed by one thread",
                     shards, least, together % shards == 0 ? "" : fmt::format(" or {}", least + 1),
                     shards / ranks);
}

std::string describe_local_steps(const LocalSteps& local_steps) {
  const LocalStepSettings& settings = local_steps.settings();
  std::string text =
      fmt::format("{} machines synchronise every {} steps", local_steps.groups(), settings.every);
  if (settings.warmup > 0) text += fmt::format(", in each of the first {}", settings.warmup);
  text += settings.outer == OuterOptimizer::mean
              ? "; weights become their mean"
              : fmt::format("; Nesterov, lr {}, momentum {}", settings.lr, settings.momentum);
  if (settings.overlap) text += ", while the next steps are computed";
  return text;
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

std::string describe_sharding(const Optimizer& optimizer) {
  if (!optimizer.states().are_sharded()) return "";
  if (optimizer.divides_weights())
    return optimizer.arena().keeps_sums_only()
               ? ", each rank with the states and gradients of its part, each node with weights of "
                 "its ranks' parts"
               : ", each rank with the states of its part and all gradients, each node with "
                 "weights of "
                 "its ranks' parts";
  if (optimizer.arena().keeps_sums_only())
    return ", each rank with the states and gradients of its part";
  std::string text = ", each rank with the states of its part";
  if (optimizer.sharding() >= Sharding::gradients)
    text += optimizer.shards() > 0
                ? " and all gradients (--reproducible)"
                : " and all gradients (two ranges of them and its part would be as large)";
  return text;
}

std::string describe_optimizer(const TrainingSettings& settings, const Optimizer& optimizer,
                               double examples) {
  std::string text = optimizer.rule().name();
  for (const std::string& parameter : optimizer.hyperparameters()) {
    const double value = optimizer.get(parameter);
    text += fmt::format(", {} {}", parameter, value);
    if (parameter == optimizer.rule().rate_name())
      text += describe_scaling(settings, value, examples);
  }
  text += describe_hooks(optimizer, settings);
  text += describe_sharding(optimizer);
  if (const std::string course = describe_schedule(settings); !course.empty())
    text += fmt::format("; {} {}", optimizer.rule().rate_name(), course);
  return text;
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

BannerLines banner_lines(const RankSetup& setup, const TrainingSettings& settings,
                         const NamedOptimizers& optimizers, const TrainingData& data,
                         const std::filesystem::path& out,
                         const std::optional<RunPosition>& resumed, BannerLines own) {
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
  if (const std::string text =
          describe_timed_saves(settings, optimizer, setup.local_steps != nullptr);
      !text.empty())
    add("Checkpoints", text);
  for (auto& line : own) lines.push_back(std::move(line));
  if (settings.workers) add("Workers", describe_workers(setup, *settings.workers));
  const ModelGrid& grid = *setup.grid;
  if (grid.is_divided())
    add("Model", fmt::format("on {} ranks, {} time{}", grid.model_ranks(), grid.models(),
                             grid.models() == 1 ? "" : "s"));
  add("Num Minibatch-size",
      batch_text(settings, grid.models(), grid.is_divided() ? "model" : "rank"));
  add("Num epoch", describe_length(settings));
  if (settings.recompute != Recompute::none)
    add("Recomputed blocks",
        settings.recompute == Recompute::all ? "all" : "all that do not fit in memory");
  if (setup.local_steps) add("Local steps", describe_local_steps(*setup.local_steps));
  if (settings.reproducible) add("Reproducible", describe_shards(settings, grid.models()));
  if (settings.sync_bn) add("Batch normalisation", "by the statistics of all ranks");
  add("Data", describe_data(data));
  add("Optimizer", describe_optimizer(settings, optimizer, setup.examples_of_update(settings)));
  if (optimizers.size() > 1) {
    std::vector<std::string> names;
    for (const NamedOptimizer& each : optimizers) names.push_back(each.name);
    add("Optimizers", fmt::format("one each for {}", fmt::join(names, " and ")));
  }
  if (grid.models() > 1) add("Node weights", optimizer.weights().describe());
  if (settings.check_replicas && grid.models() > 1)
    add("Replicas", describe_comparison(*settings.check_replicas, optimizer));
  add("Output", out == settings.out
                    ? settings.out
                    : fmt::format("{} ({} is another run's)", out.string(), settings.out));
  if (settings.init && !setup.resumption.from) add("Weights", *settings.init);
  if (resumed) add("Resumed", describe_resume(setup.resumption, *resumed));
  return lines;
}

namespace {

constexpr std::size_t most_ranks_shown = 64;
const std::string rule(42, '=');

std::string map_of_ranks(const std::vector<RankPlace>& places) {
  std::size_t host = 4, device = 6;
  for (const RankPlace& place : places) {
    host = std::max(host, place.host.size());
    device = std::max(device, place.device.size());
  }
  std::string text = fmt::format("{:>4}  {:<{}}  {:<{}}  {:>7}  {}\n", "rank", "host", host,
                                 "device", device, "threads", "cores");
  for (std::size_t rank = 0; rank < std::min(places.size(), most_ranks_shown); ++rank) {
    const RankPlace& place = places[rank];
    text += fmt::format("{:>4}  {:<{}}  {:<{}}  {:>7}  {}\n", rank, place.host, host, place.device,
                        device, place.threads, place.cpus);
  }
  if (places.size() > most_ranks_shown)
    text += fmt::format("      ... and {} more ranks\n", places.size() - most_ranks_shown);
  return text;
}

// The origin of the numbers of threads; if there are several, each with the first rank that it
// applies to.
std::string threads_remark(const std::vector<RankPlace>& places) {
  std::vector<std::pair<std::string, std::size_t>> sources;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::string& origin = places[rank].threads_origin;
    if (std::ranges::find(sources, origin, &std::pair<std::string, std::size_t>::first) ==
        sources.end())
      sources.emplace_back(origin, rank);
  }
  std::string text;
  for (const auto& [origin, rank] : sources) {
    text += text.empty() ? "threads: " : "; ";
    text += origin.empty() ? "the node's cores shared among its ranks" : "as " + origin + " says";
    if (sources.size() > 1) text += fmt::format(" (rank {})", rank);
  }
  return text.empty() ? "" : text + '\n';
}

std::string binding_remark(const std::vector<RankPlace>& places) {
  const auto worst = std::max_element(
      places.begin(), places.end(),
      [](const RankPlace& a, const RankPlace& b) { return a.lost_to_binding < b.lost_to_binding; });
  if (worst == places.end() || worst->lost_to_binding == 0) return "";
  return fmt::format(
      "mpirun binds rank {} to {} of the {} cores it could use; `mpirun --bind-to none` gives it "
      "all\n",
      worst - places.begin(), worst->threads, worst->threads + worst->lost_to_binding);
}

}  // namespace

std::string banner_text(const BannerLines& lines, const std::vector<RankPlace>& places) {
  std::string text = rule + '\n';
  for (const auto& [name, value] : lines) text += fmt::format("{}: {}\n", name, value);
  text += map_of_ranks(places);
  text += threads_remark(places);
  text += binding_remark(places);
  return text + rule + '\n';
}

void print_banner(const RankSetup& setup, const BannerLines& lines) {
  Communicator& communicator = *setup.communicator;
  const nlohmann::json own = {setup.device_text, cpu_list(setup.processors.cpus),
                              setup.threads.threads, setup.threads.lost_to_binding,
                              setup.threads.origin};
  const auto gathered = gather_object(communicator, own);
  if (communicator.rank() != 0) return;

  std::vector<RankPlace> places;
  places.reserve(gathered.size());
  for (const nlohmann::json& values : gathered)
    places.push_back({communicator.topology().host_of.at(places.size()), values.at(0), values.at(1),
                      values.at(2), values.at(3), values.at(4)});
  report_on_root(communicator, banner_text(lines, places));
}

}  // namespace tasuki::program
