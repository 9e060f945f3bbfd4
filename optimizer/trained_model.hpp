// TrainedModel: what an optimizer and the objects beside it work on: a model, the arrays that hold
// it, and the ranks that train it together.
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
#include "tensor/late.hpp"

namespace tasuki {

// The optimizer changes it. The others read it in each call, because arrays are rebuilt when layers
// are added, frozen or get their shape.
struct TrainedModel {
  Module* model = nullptr;                // null: before setup()
  std::unique_ptr<ParameterArena> arena;  // null: before setup()
  Communicator* communicator = nullptr;   // null: one process
  // Recorded steps depend on it. Advances when arrays, hooks, groups, precision, guards or the
  // exchange change.
  Revision revision;

  // The same as `model` and `arena`; an error before setup().
  Module& checked_model() const;
  const ParameterArena& checked_arena() const;

  bool has_peers() const { return communicator != nullptr && communicator->size() > 1; }
  // Where gradients and updates are computed. After setup().
  bool is_on_cpu() const { return arena->gradients().device().is_cpu(); }

  // --- what ranks tell each other; collective ---
  std::int64_t sum_over_ranks(std::int64_t own) const;
  bool all_ranks(bool yes) const { return sum_over_ranks(yes ? 0 : 1) == 0; }
  // For each of `candidates` (the same on all ranks) that has a shape on some ranks, sets that
  // shape on all ranks. Returns whether there were any.
  bool share_shapes(const std::vector<Module::NamedParameter>& candidates) const;
  // The same for all parameters, before there are arrays.
  void share_first_shapes() const;

  // --- models that would not train are errors ---
  // Member layers that are not registered and have no values.
  static void check_registered(const Module& model, std::size_t size_of_model);
  // A model without parameters, with frozen ones alone, or with parameters that have no values on
  // rank 0. Collective.
  void check_parameters(const FrozenPaths& frozen) const;
  // A pattern that matches none of its parameters.
  void check_pattern(const std::string& pattern) const;
  // A loss computed from parameters that are not in the arrays: one without values is an error, as
  // its layer was not registered and would not be trained; one with values but without an optimizer
  // is a warning.
  void check_graph(const Variable& loss) const;
};

}  // namespace tasuki
