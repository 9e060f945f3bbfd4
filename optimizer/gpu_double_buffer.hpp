// GpuDoubleBuffer: double buffering (double_buffer.hpp) for GPUs, whose steps may be recorded and
// repeated.
//
// The gradients of a step wait in a second array until the next step begins, and travel while the
// next step is computed. So nothing travels between steps, and every step does the same work on the
// same memory, which a recording can repeat.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "optimizer/gradient_exchange.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

class GpuDoubleBuffer final : public GradientExchange {
 public:
  // Gradients travel through `own`, so that another communicator of the same ranks is free during
  // the forward and backward passes. Arena and communicator outlive this object; `own` also
  // outlives recordings of steps. Collective.
  GpuDoubleBuffer(ParameterArena& arena, Communicator& own);

  std::int64_t expect(std::int64_t examples) override;
  void prepare() override;
  void begin(const Examples& examples) override;
  void give_up() override;
  std::optional<Sums> finish() override;
  std::optional<Sums> flush() override;
  bool is_late() const override { return true; }
  // Names the scale of the travelling gradients, which belong to the previous step.
  std::string kind_of_step() const override;
  // False in the first two steps, of which one sums nothing and one prepares the exchange, and in a
  // step that uses the sums of a step that failed.
  bool is_settled() const override { return holds_ && has_travelled_ && !is_summed_; }
  std::string describe() const override { return "all at once, during the next step"; }

 private:
  void sum_waiting();

  ParameterArena& arena_;
  Communicator& own_;
  Tensor waiting_, spare_;
  // waiting_ has gradients of a step, and they are sums over all ranks.
  bool holds_ = false, is_summed_ = false;
  bool has_travelled_ = false;
  // On all ranks, in the step under way and behind waiting_.
  std::int64_t next_examples_ = 0, examples_ = 0;
  AfterStep kept_{[this] { examples_ = next_examples_; }};
  bool is_recorded_ = false;  // under_way_
  std::unique_ptr<PendingExchange> under_way_;
};

}  // namespace tasuki
