// DoubleBuffer: the gradients of a step travel while the next one is computed, in a second array,
// as with ChainerMN's double buffering. The update of a step uses the gradients of the step before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/optimizer/arena.hpp"

namespace tasuki {

class DoubleBuffer {
 public:
  // Of a step: the gradients in the arena are those of all ranks, and so many examples are behind
  // them (empty: the arena's notice says).
  struct Sums {
    std::optional<std::int64_t> examples;
  };

  // Gives the arena other memory for its gradients. Uses a communicator of its own, of the same
  // kind, so that the given one is free between steps. The arena outlives the object. Collective.
  DoubleBuffer(ParameterArena& arena, const Communicator& communicator);

  // Starts to sum the gradients in the arena, and waits for those of the step before, which the
  // arena has afterwards. Empty: there are none, and the arena's gradients mean nothing.
  // `examples`: of this step, on all ranks.
  std::optional<Sums> exchange(std::optional<std::int64_t> examples);
  // Waits for what exchange() has started; the arena has it afterwards.
  std::optional<Sums> take();
  // Communicator::exchange_seconds() of its communicator.
  double exchange_seconds() const { return communicator_->exchange_seconds(); }
  bool is_under_way() const { return under_way_ != nullptr; }
  // Between parts of a computation: does a slice of the exchange, if it is done in slices.
  void advance() const {
    if (under_way_) under_way_->advance();
  }

 private:
  GradientView view(std::optional<std::int64_t> examples);
  std::optional<Sums> wait();

  ParameterArena& arena_;
  std::unique_ptr<Communicator> communicator_;
  Background background_;
  Tensor other_;  // what travels
  int exchanges_ = 0;
  Sums sums_;  // under way
  std::unique_ptr<PendingExchange> under_way_;
};

}  // namespace tasuki
