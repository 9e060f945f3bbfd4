// StepGuard: keeps numbers that are not finite out of a model, by loss scaling and by leaving out
// steps.
#pragma once

#include <cstdint>
#include <optional>

#include "communicator/communicator.hpp"
#include "optimizer/exchange_settings.hpp"
#include "optimizer/finite_guard.hpp"
#include "optimizer/loss_scaler.hpp"
#include "optimizer/optimizer_states.hpp"
#include "optimizer/trained_model.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

// Does nothing until scale_losses() or skip_non_finite() is called.
class StepGuard {
 public:
  // `exchange`: the optimizer's settings, some of which exclude a guard. All must outlive this
  // object.
  StepGuard(TrainedModel& trained, const OptimizerStates& states, const ExchangeSettings& exchange)
      : trained_(trained), states_(states), exchange_settings_(exchange) {}
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

  // --- after setup() ---
  // Turns on dynamic loss scaling, for gradients that pass through float16. A usage error if the
  // exchange carries something over to the next step: double-buffered or compressed gradients,
  // error feedback. `parts`: for a model divided among ranks, the ranks that hold one model
  // together. They skip a step together, so that their scales stay the same. It must outlive the
  // optimizer.
  void scale_losses(const LossScaler::Settings& settings, Communicator* parts = nullptr);
  // Null: losses are not scaled.
  const LossScaler* loss_scaler() const { return scaler_ ? &*scaler_ : nullptr; }

  // From now on, all ranks leave out an update if the loss of any rank or a sum of gradients is not
  // finite. Weights, states, Optimizer::t() and the model's buffers (running statistics) then keep
  // the bits that they had before the step's first forward(). With loss scaling, only a loss that
  // is not finite does this: for gradients that are not finite, loss scaling skips the update as
  // usual, and the update counts in t().
  //   Sums are checked while they are computed if the communicator can do so
  // (communicator/sum_search.hpp: on CPUs of one node). Otherwise they are checked in a separate
  // pass, with a small message if ranks have different parts of the sums. On GPUs the host waits
  // for the end of each step. `parts` as in scale_losses(). A usage error if the exchange carries
  // something over to the next step, and with a communicator that exchanges nothing.
  void skip_non_finite(Communicator* parts = nullptr);
  // Joins the guard of another optimizer in the same steps: from now on, each leaves out what the
  // other leaves out. In each StepScope, every forward() must precede the first exchange, and every
  // exchange the first update(). Both must have called skip_non_finite(). JointUpdater calls it.
  void skip_with(const StepGuard& other);
  bool skips_non_finite() const { return finite_.has_value(); }
  // Updates left out since this object was made. The same on all ranks.
  std::int64_t skipped() const { return skipped_; }

 private:
  // --- for the optimizer ---
  friend class Optimizer;
  friend class StepExchange;
  // A usage error if settings of the exchange exclude this guard, or each other.
  void check(const ExchangeSettings& settings) const;

  // The functions below are called once in each step, in this order, unless they say otherwise.
  //
  // Before the passes of a step's first batch, which has so many examples.
  void expect(std::int64_t examples) { expected_examples_ = examples; }
  // Before the first forward pass; later calls in the same step do nothing.
  void begin_step();
  // Before each backward pass. `loss` is undefined without examples. `is_further_batch`: it is
  // added to the losses of the step's earlier passes.
  void note_loss(const Tensor& loss, bool is_further_batch) const;
  // When the exchange begins, which is before or after the last backward pass, but before any
  // gradient of the step is summed. So the last seed() may come before or after it.
  void begin_search() const;
  // For each backward pass: the gradient of a mean loss over `examples` to start from, so that
  // gradients are sums over examples.
  Tensor seed(const Tensor& mean, std::int64_t examples) const;
  // After the exchange: finds out whether the step is left out.
  void search();
  // Before the update: divides the gradients by the scale of the loss.
  void unscale() const;
  // Whether the host already knows that the step is left out. Always false on GPUs and with loss
  // scaling.
  bool leaves_out_on_host() const;
  // The update changes nothing if this points to a number other than 0. Null: no update is left
  // out.
  const float* skip() const;
  // After the update.
  void adjust_scale() const;
  // The next call of begin_step() begins another step.
  void end_step() { begun_.reset(); }
  // When the step has succeeded; on GPUs the host waits here for the device. Returns whether the
  // update was left out; the model's buffers are then restored.
  bool settle();

  // Whether the communicator checks the sums of gradients while it computes them.
  bool communicator_searches() const;
  // Sets a flag on the device if it is set on any rank that has a part of the sums, or of the
  // model.
  void agree(const Tensor& found) const;
  void agree_among_parts(const Tensor& found) const;

  TrainedModel& trained_;
  const OptimizerStates& states_;
  const ExchangeSettings& exchange_settings_;
  std::optional<LossScaler> scaler_;
  std::optional<FiniteGuard> finite_;
  Communicator* parts_ = nullptr;
  std::optional<std::uint64_t> begun_;  // the StepScope of begin_step()
  std::int64_t expected_examples_ = 0;
  LateValues<float> seed_{
      [this](std::span<float> out) { out[0] = static_cast<float>(expected_examples_); }};
  std::int64_t skipped_ = 0;
};

}  // namespace tasuki
