#include "tools/simulate/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tasuki::simulate {
namespace {

double sum_of_bytes(const Workload& workload) {
  double sum = 0;
  for (const GradientRange& range : workload.ranges) sum += range.bytes;
  return sum;
}

nlohmann::json as_json(const Workload& workload) {
  nlohmann::json ranges = nlohmann::json::array();
  for (const GradientRange& range : workload.ranges)
    ranges.push_back({{"bytes", range.bytes}, {"ready", range.ready}});
  return {{"input", workload.input},       {"forward", workload.forward},
          {"backward", workload.backward}, {"update", workload.update},
          {"jitter", workload.jitter},     {"ranges", std::move(ranges)}};
}

nlohmann::json as_json(const Link& link) {
  return {{"latency", link.latency}, {"bytes_per_second", link.bytes_per_second}};
}

}  // namespace

std::vector<PredictionRow> rows_of(const Question& question, const std::vector<int>& ranks) {
  const auto examples = [&](int p) { return question.global_batch.value_or(question.batch * p); };
  const auto step = [&](int p, const Workload& of) {
    const Workload workload = with_batch(of, examples(p) / p / question.batch);
    return question.local
               ? predict_local(workload, p, question.cluster, question.overlaps, *question.local)
               : predict(workload, p, question.cluster, question.overlaps);
  };
  Workload even = question.several;
  even.jitter = 0;
  const double alone = examples(1) / step(1, question.one).step;
  std::vector<PredictionRow> rows;
  for (const int p : ranks) {
    PredictionRow row{.ranks = p};
    row.nodes = (p + question.cluster.ranks_per_node - 1) / question.cluster.ranks_per_node;
    row.prediction = step(p, p == 1 ? question.one : question.several);
    row.examples_per_second = examples(p) / row.prediction.step;
    row.efficiency = row.examples_per_second / p / alone;
    row.without_jitter = p == 1 ? row.efficiency : examples(p) / step(p, even).step / p / alone;
    rows.push_back(row);
  }
  return rows;
}

std::string describe(const Workload& workload) {
  return fmt::format(
      "model: input {:.2f} ms, forward {:.2f}, backward {:.2f}, update {:.2f}; jitter {:.2f} ms; "
      "{:.2f} MB of gradients in {} range(s)",
      workload.input * 1e3, workload.forward * 1e3, workload.backward * 1e3, workload.update * 1e3,
      workload.jitter * 1e3, sum_of_bytes(workload) / 1e6, workload.ranges.size());
}

std::string describe(const Cluster& cluster, const std::string& source) {
  std::string text = fmt::format("link: {:.1f} us, {:.4g} MB/s ({})", cluster.between.latency * 1e6,
                                 cluster.between.bytes_per_second / 1e6, source);
  if (cluster.ranks_per_node > 1)
    text += fmt::format("; {} ranks per node, there {:.1f} us, {:.4g} MB/s", cluster.ranks_per_node,
                        cluster.inside.latency * 1e6, cluster.inside.bytes_per_second / 1e6);
  return text;
}

std::string describe(const Hiding& hiding) {
  const double share = hiding.can_be_hidden > 0 ? hiding.hidden / hiding.can_be_hidden : 0;
  return fmt::format(
      "of the exchange of {:.1f} ms, {:.1f} ms can be hidden; the run hid {:.1f} ms = {:.0f} %",
      hiding.exchange * 1e3, hiding.can_be_hidden * 1e3, hiding.hidden * 1e3, share * 100);
}

std::string table_text(const std::vector<PredictionRow>& rows) {
  std::string text =
      fmt::format("{:>5} {:>5} {:>9} {:>10} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "ranks", "nodes",
                  "step", "efficiency", "no jitter", "exchange", "exposed", "waiting", "examples");
  text += fmt::format("{:>21} {:>10} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "[ms]", "", "", "[ms]",
                      "[ms]", "[ms]", "[1/s]");
  for (const PredictionRow& row : rows)
    text += fmt::format(
        "{:>5} {:>5} {:>9.2f} {:>8.1f} % {:>7.1f} % {:>8.2f} {:>8.2f} {:>8.2f} {:>9.1f}\n",
        row.ranks, row.nodes, row.prediction.step * 1e3, row.efficiency * 100,
        row.without_jitter * 100, row.prediction.exchange * 1e3, row.prediction.exposed * 1e3,
        row.prediction.waiting * 1e3, row.examples_per_second);
  return text;
}

std::string describe(const MachineMemory& memory, const Machine& machine) {
  return fmt::format(
      "memory of a machine with {} of {} rank(s): {:.1f} MB weights, {:.1f} gradients, {:.1f} "
      "states, {:.1f} copy for checkpoints, {:.1f} activations, {:.1f} working memory, {:.1f} "
      "other; {:.1f} MB in all",
      machine.per_node, machine.ranks, memory.weights / 1e6, memory.gradients / 1e6,
      memory.states / 1e6, memory.checkpoint / 1e6, memory.activations / 1e6, memory.working / 1e6,
      memory.other / 1e6, memory.total() / 1e6);
}

std::string fit_text(const FitQuestion& question, const std::vector<FitRow>& rows, double bytes) {
  const Machine machine = machine_of(question.ranks, question.cluster.ranks_per_node);
  std::string text = fmt::format(
      "fit: {:.1f} MB of memory in each machine, {} of {} rank(s) on it, {} examples per rank in a "
      "step; the fastest settings first\n{:>9} {:>9} {:>10}  {}\n{:>9} {:>9}\n",
      bytes / 1e6, machine.per_node, machine.ranks, question.examples, "step", "memory",
      "recomputed", "flags", "[ms]", "[MB]");
  bool has_bf16 = false;
  for (const FitRow& row : rows) {
    text += fmt::format(
        "{:>9.2f} {:>9.1f} {:>10}  {}\n", row.prediction.step * 1e3, row.memory.total() / 1e6,
        fmt::format("{} of {}", row.choice.recomputed_blocks(), question.memory.blocks.size()),
        flags_of(row));
    has_bf16 = has_bf16 || row.choice.bf16;
  }
  if (has_bf16 && !question.memory.is_bf16)
    text +=
        "bf16: with the compute times of the trace, which did not use it; slower without bfloat16 "
        "products\n";
  return text;
}

nlohmann::json as_json(const MachineMemory& memory) {
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"states", memory.states},
          {"checkpoint", memory.checkpoint},
          {"activations", memory.activations},
          {"working", memory.working},
          {"other", memory.other},
          {"total", memory.total()}};
}

nlohmann::json as_json(const std::vector<FitRow>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const FitRow& row : rows)
    all.push_back({{"flags", flags_of(row)},
                   {"recomputed_blocks", row.choice.recomputed_blocks()},
                   {"step", row.prediction.step},
                   {"memory", as_json(row.memory)}});
  return all;
}

nlohmann::json as_json(const Question& question, const std::vector<PredictionRow>& rows,
                       const std::optional<Hiding>& hiding) {
  nlohmann::json all = {{"one", as_json(question.one)},
                        {"several", as_json(question.several)},
                        {"batch", question.batch},
                        {"link", as_json(question.cluster.between)},
                        {"inside", as_json(question.cluster.inside)},
                        {"ranks_per_node", question.cluster.ranks_per_node},
                        {"overlaps", question.overlaps},
                        {"rows", nlohmann::json::array()}};
  if (question.global_batch) all["global_batch"] = *question.global_batch;
  if (question.local)
    all["local_steps"] = {{"every", question.local->every}, {"overlaps", question.local->overlaps}};
  if (hiding)
    all["hiding"] = {{"exchange", hiding->exchange},
                     {"can_be_hidden", hiding->can_be_hidden},
                     {"hidden", hiding->hidden}};
  for (const PredictionRow& row : rows)
    all["rows"].push_back({{"ranks", row.ranks},
                           {"nodes", row.nodes},
                           {"step", row.prediction.step},
                           {"exchange", row.prediction.exchange},
                           {"exposed", row.prediction.exposed},
                           {"waiting", row.prediction.waiting},
                           {"efficiency", row.efficiency},
                           {"efficiency_without_jitter", row.without_jitter},
                           {"examples_per_second", row.examples_per_second}});
  return all;
}

}  // namespace tasuki::simulate
