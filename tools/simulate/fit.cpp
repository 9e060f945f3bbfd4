#include "tools/simulate/fit.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tasuki::simulate {
namespace {

constexpr std::int64_t most_passes = 1 << 20;  // of --accumulate

std::vector<Sharding> shardings(const FitQuestion& question) {
  if (question.ranks == 1) return {Sharding::none};
  // The ranks of one machine share their weights anyway.
  if (question.ranks <= question.cluster.ranks_per_node)
    return {Sharding::none, Sharding::states, Sharding::gradients};
  return {Sharding::none, Sharding::states, Sharding::gradients, Sharding::weights};
}

// In all types and shardings, with one pass and nothing recomputed; the fewest changes first.
std::vector<Choice> plain_choices(const FitQuestion& question) {
  std::vector<Choice> choices;
  for (const Sharding sharding : shardings(question)) {
    if (!question.memory.is_bf16) choices.push_back({.sharding = sharding});
    choices.push_back({.bf16 = true, .sharding = sharding});
  }
  return choices;
}

// Into which the examples can be divided evenly.
std::vector<std::int64_t> numbers_of_passes(std::int64_t examples) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t passes = 1; passes <= std::min(examples, most_passes); ++passes)
    if (examples % passes == 0) numbers.push_back(passes);
  return numbers;
}

// With the fewest passes that fit.
std::optional<FitRow> first_that_fits(const FitQuestion& question, Choice choice, double bytes,
                                      const std::vector<std::int64_t>& passes) {
  for (const std::int64_t number : passes) {
    choice.accumulate = number;
    FitRow row = row_of(question, choice);
    if (row.memory.total() <= bytes) return row;
  }
  return {};
}

// Recomputes no more blocks than it must.
FitRow keeping_blocks(const FitQuestion& question, const FitRow& all, double bytes) {
  Choice choice = all.choice;
  const Machine machine = machine_of(question.ranks, question.cluster.ranks_per_node);
  choice.recomputed =
      blocks_beyond(question.memory, choice, static_cast<double>(all.batch),
                    (bytes - all.memory.total()) / static_cast<double>(machine.per_node));
  return row_of(question, choice);
}

// Whether `a` changes a part of what `b` changes.
bool is_part(const Choice& a, const Choice& b) {
  return a.accumulate <= b.accumulate && a.bf16 <= b.bf16 && a.sharding <= b.sharding &&
         (a.recomputed_blocks() == 0 || b.recomputed_blocks() > 0);
}

}  // namespace

FitRow row_of(const FitQuestion& question, const Choice& choice) {
  const Machine machine = machine_of(question.ranks, question.cluster.ranks_per_node);
  FitRow row{.choice = choice, .batch = question.examples / choice.accumulate};
  row.memory = memory_of(question.memory, machine, choice, static_cast<double>(row.batch));
  const double again =
      recompute_seconds(question.memory, choice, static_cast<double>(question.examples));
  const Workload whole = with_recompute(question.workload, again);
  const Workload passes = with_passes(whole, choice.accumulate);
  // Divided weights are gathered in the forward and in the backward pass of each batch, here as if
  // nothing hid it.
  const double weights =
      question.memory.weights *
      (choice.sharding == Sharding::weights ? 2 * static_cast<double>(choice.accumulate) : 1);
  row.prediction =
      choice.sharding == Sharding::none
          ? predict(passes, question.ranks, question.cluster, question.overlaps)
      : choice.sharding == Sharding::states
          ? predict_sharded(passes, question.ranks, question.cluster, question.overlaps,
                            {.weight_bytes = weights})
          : predict_sharded(whole, question.ranks, question.cluster, true,
                            {.weight_bytes = weights, .exchanged_passes = choice.accumulate});
  return row;
}

std::vector<FitRow> settings_that_fit(const FitQuestion& question, double bytes) {
  const std::vector<std::int64_t> passes = numbers_of_passes(question.examples);
  std::vector<FitRow> found;
  for (Choice choice : plain_choices(question)) {
    const auto kept = first_that_fits(question, choice, bytes, passes);
    if (kept) found.push_back(*kept);
    choice.recomputed = all_blocks(question.memory);
    const auto all = first_that_fits(question, choice, bytes, passes);
    if (all && (!kept || all->choice.accumulate < kept->choice.accumulate))
      found.push_back(keeping_blocks(question, *all, bytes));
  }
  std::ranges::stable_sort(found, {}, [](const FitRow& row) { return row.prediction.step; });
  std::vector<FitRow> rows;
  for (const FitRow& row : found)
    if (std::ranges::none_of(
            rows, [&](const FitRow& faster) { return is_part(faster.choice, row.choice); }))
      rows.push_back(row);
  return rows;
}

FitRow smallest(const FitQuestion& question) {
  const std::int64_t passes = numbers_of_passes(question.examples).back();
  std::vector<FitRow> rows;
  for (Choice choice : plain_choices(question)) {
    choice.accumulate = passes;
    rows.push_back(row_of(question, choice));
    choice.recomputed = all_blocks(question.memory);
    rows.push_back(row_of(question, choice));
  }
  return *std::ranges::min_element(rows, {}, [](const FitRow& row) { return row.memory.total(); });
}

std::string flags_of(const FitRow& row) {
  std::string text = fmt::format("--batchsize {}", row.batch);
  const Choice& choice = row.choice;
  if (choice.accumulate > 1) text += fmt::format(" --accumulate {}", choice.accumulate);
  if (const std::size_t blocks = choice.recomputed_blocks(); blocks > 0)
    text += fmt::format(" --recompute {}", blocks == choice.recomputed.size() ? "all" : "auto");
  if (choice.bf16) text += " --dtype bf16";
  constexpr const char* names[] = {"none", "states", "gradients", "weights"};
  if (choice.sharding != Sharding::none)
    text += fmt::format(" --shard {}", names[static_cast<std::size_t>(choice.sharding)]);
  return text;
}

}  // namespace tasuki::simulate
