// OptimizerStates: the arrays that an update rule keeps for each parameter, and their division
// among ranks.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.hpp"
#include "optimizer/arena_slices.hpp"
#include "optimizer/shared_weights.hpp"
#include "optimizer/trained_model.hpp"
#include "optimizer/update_rule.hpp"

namespace tasuki {

// `const` is shallow: values may be written through it. A state is one array with the arena's
// offsets. Every rank keeps all of it, unless ranks divide the states: then each keeps the part of
// its own slice (arena_slices.hpp).
class OptimizerStates {
 public:
  OptimizerStates(std::shared_ptr<const UpdateRule> rule, const TrainedModel& trained,
                  const SharedWeights& weights);
  OptimizerStates(const OptimizerStates&) = delete;
  OptimizerStates& operator=(const OptimizerStates&) = delete;

  // --- who keeps them ---
  // Whether each rank is to keep only the states of its own slice of the arena, update that slice,
  // and give its new weights to the other ranks. States then take 1 / ranks of the memory. Updates
  // are the same, except that sums of gradients may be rounded differently if MPI adds them (flat;
  // two_dimensional between three or more nodes). Default: no.
  //   On CPUs, a rank's gradients are sums only in its own slice after an exchange, and an update
  // with an ArrayHook is a usage error. On GPUs, all gradients are sums; LAMB and rules without a
  // built-in kernel are usage errors there. Has no effect with a single rank, or with `dummy`,
  // which exchanges nothing. Call it before setup(), identically on all ranks.
  void shard(bool sharded);
  // Whether shard() has an effect. After setup().
  bool are_sharded() const { return are_sharded_; }
  // Whether each rank has only a part of the states: they are sharded, or divided like the weights
  // that ranks share. The same on all ranks.
  bool are_divided() const { return are_sharded_ || weights_.are_shared(); }

  // --- values ---
  // For Adam "m" and "v". An unknown name is a usage error in the functions that follow.
  std::vector<std::string> names() const { return rule_->states(); }
  // The state of a parameter, in its shape. Writing to it changes the state. Valid until layers are
  // added, frozen or unfrozen. For a frozen parameter: the state with which it will continue when
  // it is unfrozen. A usage error if ranks divide the states, unless the parameter is frozen.
  Tensor of(const Parameter& parameter, const std::string& name) const;
  // A whole state, flat, with the arena's offsets. If ranks divide the states, a copy: on all
  // ranks, or on `root` alone and undefined elsewhere. Collective.
  Tensor gather(const std::string& name, std::optional<int> root = {}) const;
  // The part of a state that this rank keeps, flat, and the arena's elements that it belongs to:
  // all of them unless ranks divide the states. The values are not copied.
  struct Part {
    Range elements;
    Tensor values;
  };
  Part own(const std::string& name) const;
  // Sets a parameter's state to these values, in its shape. If ranks divide the states, each takes
  // its own part.
  void set(const Parameter& parameter, const std::string& name, const Tensor& values) const;
  // Whether the parameter has states. A parameter frozen from the start has none until of() is
  // called for it.
  bool has(const Parameter& parameter) const;
  // The memory that the states of this process take.
  std::size_t bytes() const;

  // --- who updates what ---
  // The owners of the arena's slices: all ranks if states are sharded, or the ranks that share
  // these weights, or this rank alone.
  const SliceOwners& owners() const { return *owners_; }
  // This rank's parts, in the order of names().
  std::span<const Tensor> values() const { return values_; }

 private:
  // --- for the optimizer ---
  friend class Optimizer;
  // The choice made by shard(), which ranks compare.
  std::string_view setting() const {
    return is_wanted_ ? "states shared by the ranks" : "states on every rank";
  }
  // Whether the states of the next arena will be sharded.
  bool will_be_sharded() const;
  // Moves the states to another arena, which is about to become trained.arena. Parameters in both
  // arenas keep their states, matched by path; others begin with zeros. Collective.
  void move_to(const ParameterArena& arena);
  // Forgets all states, before another model is set up.
  void clear();
  // Forgets the states of frozen parameters.
  void clear_frozen() { of_frozen_.clear(); }

  SliceOwners owners_of(const ParameterArena& arena) const;
  std::size_t number_of(const std::string& name) const;
  // A whole state, on every rank; a copy if ranks divide it. Collective.
  Tensor whole(std::size_t number) const;

  std::shared_ptr<const UpdateRule> rule_;
  const TrainedModel& trained_;
  const SharedWeights& weights_;
  bool is_wanted_ = false;
  // Of trained_.arena.
  bool are_sharded_ = false;
  std::optional<SliceOwners> owners_;
  std::vector<Tensor> values_;
  // Of frozen parameters, by path; flat, in the order of names().
  mutable std::map<std::string, std::vector<Tensor>> of_frozen_;
};

}  // namespace tasuki
