// DoubleBuffer: ChainerMN's double buffering. The gradients of a step travel in a second array
// while the next step is computed, and the update of that next step uses them.
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
  // Moves the arena's gradients into other memory. They travel through `own`, a second communicator
  // of the same ranks, so that `communicator` is free between steps. Both communicators and the
  // arena outlive this object. Collective.
  DoubleBuffer(ParameterArena& arena, Communicator& own, Communicator& communicator);

  void begin(const Examples& examples) override { next_ = examples; }
  void advance() override;
  // Starts to sum the gradients in the arena, and waits for the sums of the step before.
  std::optional<Sums> finish() override;
  std::optional<Sums> flush() override;
  bool is_late() const override { return true; }
  // Moves the arena's gradients back into memory of `communicator`, which exchanges in place only
  // what it allocated itself.
  void leave() override;
  std::string describe() const override { return "all at once, during the next step"; }

 private:
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
