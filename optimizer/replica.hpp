// Replica: a copy of an optimizer's model, for computing gradients in another thread or on another
// device.
#pragma once

#include <memory>
#include <vector>

#include "nn/module.hpp"
#include "optimizer/arena.hpp"

namespace tasuki {

class Replica {
 public:
  // Moves the parameters of `copy` into arrays with the arena's offsets and shapes, on the copy's
  // device. They take the arena's values. `values` may be the arena's own; the copy then also reads
  // the arena's rounded weights. The copy has parameters of the same paths and shapes as the
  // arena's model and must outlive the replica.
  Replica(Module& copy, const ParameterArena& arena, const Tensor& values, const Tensor& gradients);

  Module& model() const { return *model_; }
  // Whether it still has what this arena's constructor and keep_rounded() made, if its values are
  // the arena's.
  bool follows(const ParameterArena& arena) const;
  const Tensor& gradients() const { return gradients_; }
  // The counterparts of ParameterArena::entries().
  const std::vector<ParameterArena::Entry>& entries() const { return entries_; }
  // As ParameterArena::point_gradients_at().
  void point_gradients_at(const Tensor& array) const;

 private:
  Module* model_;
  Tensor values_, gradients_, arena_rounded_;
  std::vector<ParameterArena::Entry> entries_;
  std::vector<std::shared_ptr<const RoundedValue>> rounded_;  // as parameters know them
};

}  // namespace tasuki
