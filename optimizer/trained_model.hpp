// TrainedModel: a model, the arrays that hold its parameters, and the ranks that train it together.
// An optimizer and its parts share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "optimizer/arena.hpp"
#include "optimizer/parameter_group.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

// Only the optimizer changes it. The others read it anew in each call, because arrays are rebuilt
// when layers are added, are frozen, or get their shape.
struct TrainedModel {
  Module* model = nullptr;                // null: before setup()
  std::unique_ptr<ParameterArena> arena;  // null: before setup()
  Communicator* communicator = nullptr;   // null: one process
  // The number of shards of all ranks together, if gradients are added in the order of a tree
  // (Optimizer::set_shards); 0: they are not.
  std::int64_t shards = 0;
  // Advances when arrays, hooks, groups, precision, guards or the exchange change, which makes
  // recorded steps invalid.
  Revision revision;

  // `model` and `arena`; an error before setup().
  Module& checked_model() const;
  const ParameterArena& checked_arena() const;

  bool has_peers() const { return communicator != nullptr && communicator->size() > 1; }
  // Where gradients and updates are computed. After setup().
  bool is_on_cpu() const { return arena->gradients().device().is_cpu(); }

  // --- agreement between ranks; collective ---
  std::int64_t sum_over_ranks(std::int64_t own) const;
  // Whether `condition` holds on all ranks.
  bool all_ranks(bool condition) const { return sum_over_ranks(condition ? 0 : 1) == 0; }
  // Sets the shape of each candidate on all ranks, if any rank knows it. The candidates are the
  // same on all ranks. Returns whether any shape was known.
  bool share_shapes(const std::vector<Module::NamedParameter>& candidates) const;
  // share_shapes() for all parameters of the model, before the arrays exist.
  void share_first_shapes() const;

  // --- checks that fail for models that would not train ---
  // Throws if a member layer is not registered and has no values.
  static void check_registered(const Module& model, std::size_t size_of_model);
  // Throws if there is no parameter, if all are frozen, or if one has no values on rank 0.
  // Collective.
  void check_parameters(const FrozenPaths& frozen) const;
  // Throws if the pattern matches no parameter of the model; does nothing before setup().
  void check_pattern(const std::string& pattern) const;
  // Looks for parameters that the loss depends on and that are not in the arrays. Throws if one has
  // no values: its layer is not registered and would not be trained. Warns if one has values but no
  // optimizer.
  void check_graph(const Variable& loss) const;
};

}  // namespace tasuki
