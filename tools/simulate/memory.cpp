#include "tools/simulate/memory.hpp"

#include <algorithm>
#include <optional>

namespace tasuki::simulate {
namespace {

constexpr double units_of_weights = 12;  // default_unit_bytes()

// Of activations, whose traced bytes are those of the trace's type.
double scale_of(const ModelMemory& model, const Choice& choice) {
  return choice.bf16 && !model.is_bf16 ? 0.5 : 1;
}

bool is_recomputed(const Choice& choice, std::size_t block) {
  return block < choice.recomputed.size() && choice.recomputed[block];
}

}  // namespace

std::size_t Choice::recomputed_blocks() const {
  return static_cast<std::size_t>(std::ranges::count(recomputed, true));
}

Machine machine_of(int ranks, int ranks_per_node) {
  return {.ranks = ranks, .per_node = std::min(ranks, ranks_per_node)};
}

MachineMemory memory_of(const ModelMemory& model, const Machine& machine, const Choice& choice,
                        double examples) {
  const double ranks = machine.per_node;
  const double share = ranks / machine.ranks;  // of what all ranks divide
  double activations = model.activations, largest = 0;
  for (std::size_t block = 0; block < model.blocks.size(); ++block) {
    if (!is_recomputed(choice, block)) continue;
    activations -= model.blocks[block].bytes;
    largest = std::max(largest, model.blocks[block].bytes);
  }
  const double of_rank = ranks * examples * scale_of(model, choice);
  // Two of its units are there beside a machine's own part.
  const double weights =
      choice.sharding == Sharding::weights && share < 1
          ? std::min(model.weights, model.weights * (share + 2.0 / units_of_weights))
          : model.weights;
  MachineMemory memory{.weights = weights * (choice.bf16 ? 1.5 : 1),
                       .gradients = ranks * model.gradients,
                       .states = model.states * (choice.sharding >= Sharding::states ? share : 1),
                       .activations = of_rank * std::max(activations, 0.0),
                       .working = of_rank * (model.working + largest),
                       .other = ranks * model.other};
  if (choice.sharding >= Sharding::gradients)
    memory.gradients =
        std::min(memory.gradients, ranks * (model.gradients / machine.ranks + model.travelling));
  // With divided weights, of a machine's part.
  memory.checkpoint =
      memory.states + model.weights * (choice.sharding == Sharding::weights ? share : 1);
  return memory;
}

double recompute_seconds(const ModelMemory& model, const Choice& choice, double examples) {
  double seconds = 0;
  for (std::size_t block = 0; block < model.blocks.size(); ++block)
    if (is_recomputed(choice, block)) seconds += model.blocks[block].seconds * examples;
  return seconds;
}

std::vector<bool> all_blocks(const ModelMemory& model) {
  return std::vector<bool>(model.blocks.size(), true);
}

std::vector<bool> blocks_beyond(const ModelMemory& model, const Choice& choice, double examples,
                                double room) {
  const double scale = examples * scale_of(model, choice);
  std::vector<std::optional<RecomputePlan::Cost>> costs;
  for (const ModelMemory::Block& block : model.blocks)
    costs.push_back(RecomputePlan::Cost{.bytes = static_cast<std::size_t>(block.bytes * scale),
                                        .seconds = block.seconds * examples});
  std::vector<bool> blocks =
      RecomputePlan::blocks_within(costs, static_cast<std::size_t>(std::max(room, 0.0)));
  blocks.flip();
  return blocks;
}

}  // namespace tasuki::simulate
