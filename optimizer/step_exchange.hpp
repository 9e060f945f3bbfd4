// StepExchange: what the ranks of an optimizer tell each other in a step: a few numbers ahead of
// it, and the sums of their gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "communicator/communicator.hpp"
#include "optimizer/exchange_settings.hpp"
#include "optimizer/gradient_exchange.hpp"
#include "optimizer/optimizer_states.hpp"
#include "optimizer/step_guard.hpp"
#include "optimizer/trained_model.hpp"

namespace tasuki {

// With one process a step has no messages: what ranks agree on is what this rank says, and sums of
// gradients are its own gradients.
//
// How gradients travel is up to a GradientExchange. Around it this class counts the examples of a
// step, and sends the few numbers that ranks must know besides: how many examples all ranks have,
// whether a rank's model changed, whether a rank was asked to stop. On CPUs they are notices behind
// the gradients (ParameterArena::notice). On GPUs, reading those would mean waiting for the whole
// step, so the hosts exchange a message before each step, while the device is busy with the
// previous one. They also do so if ranks exchange something else before the gradients: in the
// forward pass (Module::communicates), or between two steps while double-buffered gradients wait.
class StepExchange {
 public:
  // All outlive this object.
  StepExchange(TrainedModel& trained, const OptimizerStates& states, const StepGuard& guard,
               const ExchangeSettings& settings)
      : trained_(trained), states_(states), guard_(guard), settings_(settings) {}

  // --- about it ---
  // As Optimizer::set_exchange() was told.
  const ExchangeSettings& settings() const { return settings_; }
  // How gradients travel. Null: before setup(), and where this process trains alone.
  const GradientExchange* way() const { return way_.get(); }
  // Since this object was made.
  TransferTimes times() const;
  // Whether any rank was asked to stop (core/stop_request.hpp) before the last exchange: the same
  // on all ranks that exchange gradients (those of dummy do not).
  bool asked_to_stop() const { return asked_to_stop_; }
  // What a step's work on a GPU depends on besides its batch; the same on all ranks.
  std::string kind_of_step() const { return way_ ? way_->kind_of_step() : ""; }
  // Whether later steps ask a GPU for the same work as this one, on all ranks.
  bool is_settled() const { return !way_ || way_->is_settled(); }
  // Whether the sums of a step are used in a later one.
  bool is_late() const { return way_ && way_->is_late(); }

  // --- ahead of a step ---
  // What a rank says of its batch, or what was found of all ranks.
  struct Told {
    std::int64_t examples = 0;   // of all ranks: the sum
    int level = 0;               // 0 to 3; of all ranks: the least
    bool model_changed = false;  // since the last update; of all ranks: of any
  };
  // Collective where ranks tell each other ahead; without a message the result is `own`.
  Told tell_ahead(const Told& own);
  // For a rank whose model changed, where ranks tell each other in the exchange of gradients, which
  // the others are about to begin: they learn of it. No gradients are lost, because no rank has
  // computed any yet.
  void tell_of_change();
  // Notes what was found. `adds`: of a further batch of the same step.
  struct Agreement {
    std::int64_t global_examples = 0;  // in the batches so far
    int least_level = 0;               // of all ranks
  };
  Agreement agree(const Told& of_all, bool adds);
  // How many examples the sums have that the update of a step of so many will use.
  std::int64_t expect(std::int64_t global_examples);
  // Whether ranks must agree before this rank's next forward pass, or before begin().
  bool must_agree_before_forward() const;
  bool must_agree_before_begin() const;
  // Whether this rank runs the passes of a batch of which it has so many examples: also without
  // any, if they exchange messages and another rank may have some. After agree().
  bool takes_part(std::int64_t examples) const;

  // --- the batches of a step ---
  // Counts a batch whose gradients are about to be written, or added to those of earlier batches in
  // the same StepScope.
  void add_batch(std::int64_t examples);
  // Of the step under way.
  bool has_gradients() const { return gradients_of_ == StepScope::number(); }
  int batches() const { return has_gradients() ? batches_ : 0; }
  std::int64_t examples() const { return examples_; }
  // For callers that do not pass all examples behind this rank's gradients through
  // Optimizer::backward().
  void set_examples(std::int64_t examples) { examples_ = examples; }
  // The gradients were used, or do not count.
  void end_step();

  // --- the exchange of a step; collective ---
  // Before a forward pass: gradients that wait since the step before may start to travel.
  void prepare();
  // Whether begin() may be called before the step's last backward pass, so that gradients travel
  // during it; otherwise it comes afterwards.
  bool may_begin_early() const;
  // Begins the exchange, after add_batch() of the last batch. All ranks or none know the number of
  // examples on all ranks. A usage error where this process trains alone and has fewer.
  void begin(std::optional<std::int64_t> global_examples);
  bool has_begun() const { return way_ && way_->has_begun(); }
  // During a backward pass: a parameter's gradient is final; and between two functions.
  void ready(Parameter& parameter);
  void advance();
  // Ends the exchange; the arena then has the sums that this rank needs (OptimizerStates::summed).
  // With double buffering they are those of the step before.
  struct Sums {
    std::int64_t examples = 0;   // on all ranks; 0: there are no sums yet
    bool model_changed = false;  // on another rank: these are no sums of one model's gradients
  };
  Sums finish();
  // Puts the sums of the last step into the arena if no step has used them yet.
  std::optional<Sums> flush();
  // After a pass that failed: waits for what has started to travel, and forgets it.
  void give_up();

  // --- between steps; collective ---
  // After there is another arena, and before the old one goes.
  void follow_arena();
  void leave_arena();
  // After other settings.
  void follow_settings();
  // Before there is another communicator.
  void leave_communicator();

 private:
  bool has_met() const { return met_ && met_->step == StepScope::number(); }
  bool must_tell_ahead() const;
  // Whether gradients travel after the backward pass whatever the settings say: on a GPU, if layers
  // exchange messages.
  bool travels_after_backward() const;
  std::int64_t examples_on_gpu(std::optional<std::int64_t> global_examples) const;
  void write_notices(std::optional<std::int64_t> global_examples) const;
  Sums read_notices(std::optional<std::int64_t> global_examples);

  TrainedModel& trained_;
  const OptimizerStates& states_;
  const StepGuard& guard_;
  const ExchangeSettings& settings_;
  // For double-buffered gradients. It is kept when way_ is replaced: recordings may hold its
  // sums, and NCCL does not end a communicator before these recordings are gone.
  std::unique_ptr<Communicator> second_communicator_;
  std::unique_ptr<GradientExchange> way_;  // of the arena, among several ranks
  TransferTimes earlier_times_;            // of those before it
  bool tells_ahead_ = false;               // ranks exchange a message before each step
  bool asked_to_stop_ = false;

  // Of the step under way: what was agreed, and the batches, each with the StepScope it is of.
  struct Met {
    std::uint64_t step = 0;
    int batches = 0;                     // for which ranks agreed
    std::int64_t examples_of_batch = 0;  // of the last one, on all ranks
    Agreement agreement;
  };
  std::optional<Met> met_;
  std::optional<std::uint64_t> gradients_of_;
  std::int64_t examples_ = 0;
  int batches_ = 0;
};

}  // namespace tasuki
