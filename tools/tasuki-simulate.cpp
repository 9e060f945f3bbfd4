// Predicts step time and efficiency on up to 16,384 ranks from traces with one and two ranks.
//
//   mpirun -np 1 build/apps/train_mnist --exchange overlapped --trace one.json ...
//   mpirun -np 2 -H node1,node2 build/apps/train_mnist --exchange overlapped --trace two.json ...
//   build/apps/tasuki-simulate --single one.json --trace two.json
//
// With --fit it says which settings make a model fit in a machine's memory.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "core/terminal.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"
#include "program/start/remembered_links.hpp"
#include "run_tool.hpp"
#include "tensor/dtype.hpp"
#include "tools/simulate/report.hpp"

namespace tasuki::simulate {
namespace {

using program::Options;

constexpr double most_ranks = 16'384, most_ms = 1e9, most_rate = 1e9;

struct Settings {
  std::optional<std::string> single, trace, link, json;
  std::int64_t buckets = 16, ranks_per_node = 1;
  std::optional<std::int64_t> batch, global_batch, sync_every;
  bool sync_overlap = false;
  std::optional<program::Recompute> recompute;
  std::optional<double> fit;  // bytes
  std::optional<double> input_ms, forward_ms, backward_ms, update_ms, jitter, gradient_mb;
  std::optional<double> latency, rate;  // microseconds, MB per second
  double inside_latency = 2, inside_rate = 5000;
  std::string communicator = "hierarchical", exchange = "overlapped";
  std::optional<AllreduceAlgorithm> allreduce;
  DType wire_dtype = DType::float32;
  std::vector<double> ranks = {1,   2,   4,    8,    16,   32,   64,   128,
                               256, 512, 1024, 2048, 4096, 8192, 16384};
};

program::Option fit_flag(std::optional<double>& bytes) {
  program::Option option;
  option.value_name = "MEMORY";
  option.help =
      "say which settings make the model fit in MEMORY (500MB, 16GB, 1.5TiB) of each machine, for "
      "all its ranks together (--ranks-per-node): of --accumulate, --recompute, --dtype and "
      "--shard, the fastest first; with one number in --ranks, and a trace of CPUs without "
      "--accumulate";
  program::bind_or_none(option, bytes, program::parse_bytes, program::bytes_text);
  return option;
}

void add_cluster_flags(Options& options, Settings& settings) {
  options.group("Cluster", program::OnScreen::no);
  options
      .add("ranks", settings.ranks, "none", {1, most_ranks}, "LIST",
           "numbers of ranks to predict, ascending, separated by commas")
      .common("numbers of ranks to predict");
  options
      .add("ranks-per-node", settings.ranks_per_node, {1, 1024}, "N",
           "ranks that share a node's link")
      .common("ranks that share a node's link");
  options
      .add("latency", settings.latency, "auto", {0, 1e9}, "US",
           "latency of a short message between nodes in microseconds; `auto`: from --link, else "
           "50")
      .common("microseconds of a short message");
  options
      .add("rate", settings.rate, "auto", {1e-3, most_rate}, "MB/S",
           "10^6 bytes per second of a node's link in each direction; `auto`: from --link, else "
           "from the traced exchanges, else 118 (1 Gbit/s)")
      .common("10^6 bytes per second of a link");
  options.add("inside-latency", settings.inside_latency, {0, 1e9}, "US",
              "latency of a short message inside a node in microseconds");
  options.add("inside-rate", settings.inside_rate, {1e-3, most_rate}, "MB/S",
              "10^6 bytes per second of a rank inside a node");
  options
      .add("communicator", settings.communicator, {"hierarchical", "flat"}, "NAME",
           "hierarchical: ranks of a node sum their gradients before these leave the node; flat: "
           "one allreduce over all ranks")
      .common("hierarchical or flat");
  program::add_allreduce_flag(options, settings.allreduce);
  options.add("wire-dtype", settings.wire_dtype, program::wire_dtypes(), "NAME",
              "fp32, fp16 or bf16: type of gradients on the wire");
}

void add_flags(Options& options, Settings& settings) {
  options.group("Traced runs");
  options
      .add("single", settings.single, "none", "FILE",
           "--trace of a run of one rank, the baseline of efficiency")
      .in_short("--trace of a run of one rank");
  options
      .add("trace", settings.trace, "none", "FILE",
           "--trace of a run of several ranks with the same model and batch per rank, with "
           "--exchange overlapped or whole: its compute times, jitter, and ranges of gradients")
      .in_short("--trace of a run of several ranks");
  options
      .add("link", settings.link, "none", "FILE",
           "link.json from the output folder of that run; without it the rate comes from the "
           "traced exchanges, if the run had one rank on each of several nodes")
      .in_short("link.json of that run");
  options
      .add("batch", settings.batch, "traced", {1, std::int64_t{1} << 40}, "N",
           "examples per rank in a step of the traced runs; 1 if traces do not say")
      .in_short("examples per rank in a step");
  options.group("Model (without traces, or instead of their values)");
  const program::NumberRange milliseconds{0, most_ms};
  options.add("input-ms", settings.input_ms, "traced", milliseconds, "MS", "waiting for a batch");
  options.add("forward-ms", settings.forward_ms, "traced", milliseconds, "MS", "forward pass");
  options.add("backward-ms", settings.backward_ms, "traced", milliseconds, "MS", "backward pass");
  options.add("update-ms", settings.update_ms, "traced", milliseconds, "MS", "optimizer's update");
  options
      .add("jitter", settings.jitter, "traced", {0, 1000}, "PERCENT",
           "standard deviation of a rank's input, forward and backward time")
      .in_short("deviation of a rank's times");
  options
      .add("gradient-mb", settings.gradient_mb, "traced", {0, 1e9}, "MB",
           "float32 gradients in 10^6 bytes, divided into --buckets equal ranges that are ready "
           "at equal intervals of the backward pass")
      .in_short("float32 gradients in 10^6 bytes");
  options.add("buckets", settings.buckets, {1, 100'000}, "N", "see --gradient-mb")
      .in_short("ranges of the gradients");
  add_cluster_flags(options, settings);
  options.group("Step");
  options
      .add("exchange", settings.exchange, {"overlapped", "whole"}, "NAME",
           "gradients travel during the backward pass, or after it")
      .in_short("overlapped or whole");
  options
      .add("sync-every", settings.sync_every, "none", {1, 1'000'000'000}, "H",
           "nodes exchange their weights every H steps, as with --sync-every of training programs; "
           "rows are means over all steps. `none`: gradients of all ranks in each step")
      .in_short("steps between exchanges of nodes");
  options.add("sync-overlap", settings.sync_overlap,
              "with --sync-every: weights travel while the next H steps are computed");
  options
      .add("global-batch", settings.global_batch, "none", {1, std::int64_t{1} << 50}, "N",
           "strong scaling: examples of all ranks in a step; compute times are proportional to a "
           "rank's share. `none`: weak scaling, each rank keeps --batch")
      .in_short("examples of all ranks in a step");
  options
      .add("recompute", settings.recompute, "traced",
           {{"none", program::Recompute::none}, {"all", program::Recompute::all}}, "BLOCKS",
           "none or all: blocks of the model that are computed again in the backward pass; also "
           "says how much memory a machine needs. `traced`: as in the traced runs")
      .in_short("none or all, as in training programs");
  options.add("fit", fit_flag(settings.fit)).in_short("memory of a machine that a model is to fit");
  options
      .add("json", settings.json, "none", "FILE",
           "also write model, link and table to this file, in seconds and bytes")
      .in_short("file for model, link and table");
}

Link read_link(const std::string& file) {
  try {
    const auto found = parse_json(read_file(file), file);
    const Link link{.latency = found.at("latency"),
                    .bytes_per_second = found.at("bytes_per_second")};
    if (link.latency >= 0 && link.bytes_per_second > 0) return link;
  } catch (const nlohmann::json::exception&) {  // reported below
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
  }
  fail(ErrorKind::data,
       "{}: expected a link.json of a training program, with latency and bytes_per_second", file);
}

std::optional<TracedRun> read_trace(const std::optional<std::string>& file) {
  if (!file) return {};
  return parse_trace(read_file(*file), *file);
}

// The flags' values replace the traced ones.
void overwrite(Workload& workload, const Settings& settings) {
  const auto set = [](double& seconds, const std::optional<double>& ms) {
    if (ms) seconds = *ms * 1e-3;
  };
  set(workload.input, settings.input_ms);
  set(workload.forward, settings.forward_ms);
  set(workload.backward, settings.backward_ms);
  set(workload.update, settings.update_ms);
  if (settings.jitter) workload.jitter = workload.compute() * *settings.jitter / 100;
  if (!settings.gradient_mb) return;
  workload.ranges.clear();
  const auto count = static_cast<double>(settings.buckets);
  for (double i = 1; i <= count; ++i)
    workload.ranges.push_back(
        {.bytes = *settings.gradient_mb * 1e6 / count, .ready = workload.backward * i / count});
}

class Simulation {
 public:
  explicit Simulation(const Settings& settings)
      : settings_(settings),
        single_(read_trace(settings.single)),
        run_(read_trace(settings.trace)) {
    if (single_ && single_->steps.size() != 1)
      fail(ErrorKind::usage, "--single: expected the trace of one rank, found {} in {}",
           single_->steps.size(), *settings.single);
    if (run_ && run_->steps.size() < 2)
      fail(ErrorKind::usage,
           "--trace: expected the trace of several ranks, found one in {}; its "
           "flag is --single",
           *settings.trace);
    for (const double number : settings.ranks) ranks_.push_back(static_cast<int>(number));
    if (ranks_.empty() || !std::ranges::equal(ranks_, settings.ranks))
      fail(ErrorKind::usage, "--ranks: expected whole numbers of ranks, such as 1,2,64");
    check_flags();
    set_link();
    set_workloads();
  }

  void print() const {
    const std::vector<PredictionRow> rows = rows_of(question_, ranks_);
    nlohmann::json all = as_json(question_, rows, hiding_);
    std::string text =
        fmt::format("{}\n{}\n", describe(question_.several), describe(question_.cluster, source_));
    if (hiding_) text += describe(*hiding_) + '\n';
    if (settings_.recompute) {
      const auto [memory, machine] = machine_memory();
      text += describe(memory, machine) + '\n';
      all["memory"] = as_json(memory);
    }
    if (settings_.fit) {
      const FitQuestion question = fit_question();
      const std::vector<FitRow> fitting = settings_that_fit(question, *settings_.fit);
      if (fitting.empty()) fail_to_fit(question);
      text += fit_text(question, fitting, *settings_.fit);
      all["fit"] = as_json(fitting);
    } else {
      text += table_text(rows);
    }
    if (settings_.json) write_named_file(*settings_.json, json_text(all, 2) + '\n');
    fmt::print("{}", wrap_lines(printable_lines(text), line_width(stdout)));
  }

 private:
  void check_flags() const {
    if (settings_.sync_overlap && !settings_.sync_every)
      fail(ErrorKind::usage, "--sync-overlap has no effect without --sync-every H; add it");
    if (!settings_.recompute && !settings_.fit) return;
    const char* const flag = settings_.fit ? "--fit" : "--recompute";
    if (!single_ && !run_)
      fail(ErrorKind::usage,
           "{}: expected a traced run, whose memory and blocks count; add --single or --trace",
           flag);
    const TracedRun& run = traced(ranks_.back());
    const std::int64_t examples = examples_of(run).value_or(0);
    if (settings_.batch && examples > 0 && *settings_.batch != examples)
      fail(ErrorKind::usage, "--batch: expected {}, as in {}, found {}; leave --batch out",
           examples, run.file, *settings_.batch);
    if (!settings_.fit) return;
    if (ranks_.size() != 1)
      fail(ErrorKind::usage, "--fit: expected one number of ranks, found {}; add --ranks 8 or so",
           ranks_.size());
    if (settings_.recompute)
      fail(ErrorKind::usage,
           "--fit and --recompute: --fit tries all ways to recompute; leave "
           "--recompute out");
    if (settings_.sync_every)
      fail(ErrorKind::usage,
           "--fit and --sync-every: --fit predicts steps that exchange gradients "
           "of all ranks; leave one out");
  }

  std::optional<std::int64_t> traced_examples() const {
    const std::optional<TracedRun>& run = run_ ? run_ : single_;
    return run ? examples_of(*run) : std::nullopt;
  }

  // Whose memory and times count for this number of ranks.
  const TracedRun& traced(int ranks) const {
    return run_ && (ranks > 1 || !single_) ? *run_ : *single_;
  }

  // The step of the last number of ranks.
  std::int64_t examples_of_rank() const {
    const std::int64_t ranks = ranks_.back();
    if (!settings_.global_batch) return static_cast<std::int64_t>(question_.batch);
    return (*settings_.global_batch + ranks - 1) / ranks;
  }

  struct MemoryOfMachine {
    MachineMemory memory;
    Machine machine;
  };
  MemoryOfMachine machine_memory() const {
    const ModelMemory model = memory_of(traced(ranks_.back()));
    Choice choice{.bf16 = model.is_bf16};
    if (settings_.recompute == program::Recompute::all) choice.recomputed = all_blocks(model);
    const Machine machine = machine_of(ranks_.back(), question_.cluster.ranks_per_node);
    return {memory_of(model, machine, choice, static_cast<double>(examples_of_rank())), machine};
  }

  FitQuestion fit_question() const {
    const int ranks = ranks_.back();
    const TracedRun& run = traced(ranks);
    const std::int64_t examples = examples_of_rank();
    const Workload kept =
        with_recompute(ranks == 1 ? question_.one : question_.several, -recomputed_seconds(run));
    return {.workload = with_batch(kept, static_cast<double>(examples) / question_.batch),
            .memory = memory_of(run),
            .cluster = question_.cluster,
            .ranks = ranks,
            .overlaps = question_.overlaps,
            .examples = examples};
  }

  [[noreturn]] void fail_to_fit(const FitQuestion& question) const {
    const FitRow nearest = smallest(question);
    fail(
        ErrorKind::unavailable,
        "--fit: expected settings that fit in {} of each machine, found none; nearest is {}, which "
        "needs {:.1f} MB",
        program::bytes_text(*settings_.fit), flags_of(nearest), nearest.memory.total() / 1e6);
  }

  // With --recompute: another number of blocks than in the traced run.
  void recompute(Workload& workload, const TracedRun& run) const {
    const ModelMemory model = memory_of(run);
    if (model.blocks.empty())
      fail(ErrorKind::usage,
           "--recompute: expected a model with blocks that can be recomputed, found none in {}; "
           "leave the flag out",
           run.file);
    const auto examples = static_cast<double>(examples_of(run).value_or(1));
    double seconds = -recomputed_seconds(run);
    if (settings_.recompute == program::Recompute::all)
      seconds += recompute_seconds(model, {.recomputed = all_blocks(model)}, examples);
    workload = with_recompute(workload, seconds);
  }

  // The traced run's own link, and the link to predict for.
  void set_link() {
    std::optional<Link> found;
    if (settings_.link) found = read_link(*settings_.link);
    Link own = found.value_or(gigabit_ethernet);
    source_ = found ? *settings_.link : "assumed";
    if (!found && settings_.latency) own.latency = *settings_.latency * 1e-6;
    if (run_ && !found)
      if (const auto rate = fitted_rate(*run_, own.latency, settings_.allreduce)) {
        own.bytes_per_second = *rate;
        source_ = fmt::format("rate of the exchanges in {}", *settings_.trace);
        found = own;
      }
    Cluster& cluster = question_.cluster;
    cluster = {.ranks_per_node = static_cast<int>(settings_.ranks_per_node),
               .between = own,
               .inside = {.latency = settings_.inside_latency * 1e-6,
                          .bytes_per_second = settings_.inside_rate * 1e6},
               .is_hierarchical = settings_.communicator == "hierarchical",
               .algorithm = settings_.allreduce};
    if (run_ && found) {
      const Workload traced = workload_of(*run_);
      Cluster traced_on = cluster;
      const int ranks = static_cast<int>(run_->steps.size());
      traced_on.ranks_per_node = (ranks + run_->hosts - 1) / run_->hosts;
      hiding_ = hiding(traced, ranks, traced_on, measured_step(*run_).exposed);
    }
    if (settings_.latency) cluster.between.latency = *settings_.latency * 1e-6;
    if (settings_.rate) {
      cluster.between.bytes_per_second = *settings_.rate * 1e6;
      source_ = "--rate";
    }
  }

  void set_workloads() {
    if (run_) question_.several = workload_of(*run_);
    if (single_) question_.one = workload_of(*single_);
    if (!run_) question_.several = question_.one;
    if (!single_) question_.one = question_.several;
    overwrite(question_.one, settings_);
    overwrite(question_.several, settings_);
    if (settings_.recompute) {
      recompute(question_.one, traced(1));
      recompute(question_.several, traced(2));
    }
    for (GradientRange& range : question_.several.ranges)
      range.bytes *= static_cast<double>(size_of(settings_.wire_dtype)) / sizeof(float);
    if (question_.several.compute() + question_.several.update <= 0)
      fail(ErrorKind::usage,
           "no step was given; expected --trace and --single, or --forward-ms, --backward-ms and "
           "--gradient-mb (see --help)");
    if (question_.several.ranges.empty() && ranks_.back() > 1)
      fail(ErrorKind::usage,
           "nothing is known about the exchange; add --trace of a run of several ranks, or "
           "--gradient-mb");
    question_.batch = static_cast<double>(settings_.batch.value_or(traced_examples().value_or(1)));
    if (settings_.global_batch)
      question_.global_batch = static_cast<double>(*settings_.global_batch);
    question_.overlaps = settings_.exchange == "overlapped";
    if (settings_.sync_every)
      question_.local = {static_cast<int>(*settings_.sync_every), settings_.sync_overlap};
  }

  Settings settings_;
  std::optional<TracedRun> single_, run_;
  std::vector<int> ranks_;
  Question question_;
  std::string source_;  // of the link
  std::optional<Hiding> hiding_;
};

int run(int argc, char** argv) {
  Settings settings;
  Options options("tasuki-simulate",
                  "predicts step time and efficiency on up to 16,384 ranks from traces of one and "
                  "two ranks (docs/scaling.md)",
                  "tasuki-simulate --single one.json --trace two.json --batch 100");
  add_flags(options, settings);
  const Options::Request request = options.parse({argv + std::min(argc, 1), argv + argc});
  if (request != Options::Request::run)
    fmt::print("{}", options.text(request));
  else
    Simulation(settings).print();
  return 0;
}

}  // namespace
}  // namespace tasuki::simulate

int main(int argc, char** argv) {
  return tasuki::run_tool([&] { return tasuki::simulate::run(argc, argv); });
}
