// DoubleBuffer: ChainerMN's double buffering. The gradients of a step travel, in a second array,
// while the next step is computed, and the update of that step uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/gradient_exchange.hpp"

namespace tasuki {

class DoubleBuffer final : public GradientExchange {
 public:
  // Gives the arena other memory for its gradients. They travel through `own`, a second
  // communicator of the same ranks, so that `communicator` is free between steps. Both and the
  // arena outlive the object. Collective.
  DoubleBuffer(ParameterArena& arena, Communicator& own, Communicator& communicator);

  void advance() override;
  bool is_late() const override { return true; }
  // Gives the arena memory of `communicator` again, which exchanges only its own memory in place.
  void leave() override;
  std::string describe() const override { return "all at once, during the next step"; }

 private:
  void begin_step(const Examples& examples) override { next_ = examples; }
  // Starts to sum the gradients in the arena, and waits for those of the step before.
  std::optional<Sums> finish_step() override;
  std::optional<Sums> flush_steps() override;

  GradientView view();
  std::optional<Sums> wait();

  ParameterArena& arena_;
  Communicator& own_;
  Communicator& communicator_;
  Background background_;
  Tensor other_;  // gradients that travel
  int exchanges_ = 0;
  Examples next_;  // of the step that has begun
  Sums sums_;      // of the gradients that travel
  std::unique_ptr<PendingExchange> under_way_;
};

}  // namespace tasuki
