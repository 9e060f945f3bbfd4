// StepGuard: what keeps numbers that are not finite out of a model: loss scaling, and steps that
// are left out.
#pragma once

#include <cstdint>
#include <optional>

#include "communicator/communicator.hpp"
#include "optimizer/exchange_settings.hpp"
#include "optimizer/finite_guard.hpp"
#include "optimizer/loss_scaler.hpp"
#include "optimizer/optimizer_states.hpp"
#include "optimizer/trained_model.hpp"

namespace tasuki {

// Without scale_losses() and skip_non_finite() it does nothing.
class StepGuard {
 public:
  // `exchange`: the optimizer's settings, some of which exclude a guard. All outlive this object.
  StepGuard(TrainedModel& trained, const OptimizerStates& states, const ExchangeSettings& exchange)
      : trained_(trained), states_(states), exchange_(exchange) {}

  // --- after setup() ---
  // Dynamic loss scaling, for gradients that pass through float16. A usage error where the exchange
  // leaves something for the next step: double-buffered or compressed gradients, error feedback.
  // Where a model is divided, `parts` are the ranks that hold one model together: they skip a step
  // together, so that their scales stay the same. It must outlive the optimizer.
  void scale_losses(const LossScaler::Settings& settings, Communicator* parts = nullptr);
  // Null: losses are not scaled.
  const LossScaler* loss_scaler() const { return scaler_ ? &*scaler_ : nullptr; }

  // From now on an update is left out on all ranks if the loss of any rank or a sum of gradients is
  // not finite. Weights, states, Optimizer::t() and the model's buffers (running statistics) then
  // keep the bits that they had before the step's first forward(). With loss scaling, only the loss
  // counts: gradients that are not finite are skipped as usual, in counted updates.
  //   The sums are searched while they are computed where the communicator can do so
  // (communicator/sum_search.hpp: on CPUs of one node); elsewhere in a pass of their own, with a
  // small message where ranks have different parts of them. On GPUs the host waits for the end of
  // each step. `parts` as in scale_losses(). A usage error where the exchange leaves something for
  // the next step, and with a communicator that exchanges nothing.
  void skip_non_finite(Communicator* parts = nullptr);
  // The guard of another optimizer of the same steps: from now on both leave out what either leaves
  // out. In each StepScope all forward() must precede the first exchange, and all exchanges the
  // first update(). After skip_non_finite() of both. JointUpdater calls it.
  void skip_with(const StepGuard& other);
  bool skips_non_finite() const { return finite_.has_value(); }
  // Updates left out since this object was made. The same on all ranks.
  std::int64_t skipped() const { return skipped_; }

  // --- for the optimizer ---
  // A usage error if settings of the exchange exclude this guard, or each other.
  void check(const ExchangeSettings& settings) const;

  // What follows is called in this order in each step.
  // Before its first forward pass; later calls in the same step do nothing.
  void begin_step();
  // Before each backward pass: its loss, undefined without examples. `adds`: to those of earlier
  // passes of this step.
  void note_loss(const Tensor& loss, bool adds) const;
  // What the backward pass of a mean loss over `examples` starts with, so that ranks add up.
  Tensor seed(const Tensor& mean, std::int64_t examples) const;
  // Before gradients are exchanged and after it: finds out whether the step is left out.
  void begin_search() const;
  void search();
  // Before the update. Divides the gradients by the scale of the loss.
  void unscale() const;
  // Whether the host knows that the step is left out; on GPUs the update finds out: it changes
  // nothing where skip() points to a number that is not 0. Null: updates are never left out.
  bool leaves_out_on_host() const;
  const float* skip() const;
  // After the update.
  void adjust_scale() const;
  // Ends the step on the host, which on GPUs waits for the device. Returns whether the update was
  // left out; the model's buffers are then what they were.
  bool settle();
  // The next call of begin_step() begins another step.
  void end_step() { begun_.reset(); }

 private:
  // Whether the communicator searches the sums of gradients while it computes them.
  bool communicator_searches() const;
  // Makes a flag of the device the largest of the ranks that have parts of the sums, or of a model.
  void agree(const Tensor& found) const;
  void agree_among_parts(const Tensor& found) const;

  TrainedModel& trained_;
  const OptimizerStates& states_;
  const ExchangeSettings& exchange_;
  std::optional<LossScaler> scaler_;
  std::optional<FiniteGuard> finite_;
  Communicator* parts_ = nullptr;
  std::optional<std::uint64_t> begun_;  // the StepScope of begin_step()
  std::int64_t skipped_ = 0;
};

}  // namespace tasuki
