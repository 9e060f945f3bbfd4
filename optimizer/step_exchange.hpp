// StepExchange: what ranks exchange in a step of an optimizer: the sums of their gradients, and a
// few numbers that they must agree on.
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

// A GradientExchange sums the gradients. This class decides when it begins, measures it, and counts
// the examples that the gradients are sums over.
//
// It also exchanges the numbers that ranks must know of each other: how many examples they have,
// and whether the model of any rank changed or any rank was asked to stop. On CPUs these numbers
// are notices, which are summed with the gradients (ParameterArena::notice). On GPUs the host would
// have to wait for the whole step to read notices, so the hosts exchange a status message before
// each step, while the device is busy with the previous one. So do ranks that exchange something
// else before their gradients: in the forward pass (Module::communicates), or double-buffered
// gradients between two steps.
//
// A process that trains alone sends nothing: it agrees with itself, and its gradients are the sums;
// with shards and double buffering, they wait for the next step as those of several ranks do.
class StepExchange {
 public:
  // All must outlive this object.
  StepExchange(const TrainedModel& trained, const OptimizerStates& states, const StepGuard& guard,
               const ExchangeSettings& settings)
      : trained_(trained), states_(states), guard_(guard), settings_(settings) {}
  StepExchange(const StepExchange&) = delete;
  StepExchange& operator=(const StepExchange&) = delete;

  // --- about it ---
  // The settings, as set by Optimizer::set_exchange().
  const ExchangeSettings& settings() const { return settings_; }
  // How gradients travel. Null: before setup(), and if this process trains alone.
  const GradientExchange* gradient_exchange() const { return gradient_exchange_.get(); }
  // The times of all exchanges since this object was made; always 0 on GPUs.
  TransferTimes times() const { return times_; }
  // Whether any rank was asked to stop (core/stop_request.hpp) before the last exchange. The same
  // on all ranks, unless they exchange no gradients (communicator dummy).
  bool asked_to_stop() const { return asked_to_stop_; }
  // As GradientExchange::kind_of_step(), is_settled() and is_late().
  std::string kind_of_step() const;
  bool is_settled() const { return !gradient_exchange_ || gradient_exchange_->is_settled(); }
  bool is_late() const { return gradient_exchange_ && gradient_exchange_->is_late(); }

  // --- before a step ---
  // What a rank reports about itself and its next batch, or the combination over all ranks.
  struct Status {
    std::int64_t examples = 0;   // combined: the sum
    int readiness = 0;           // as in Optimizer::agree_on_step(); combined: the least
    bool model_changed = false;  // since the last update; combined: on any rank
  };
  // Combines the status of all ranks. Collective if they exchange a status message; otherwise the
  // result is `own`.
  Status combine(const Status& own);
  // Reports a changed model if there is no status message. The other ranks are about to exchange
  // gradients, so this rank takes part in that exchange with its notices alone. No gradients are
  // lost, because none have been computed yet.
  void announce_changed_model();
  // Records what ranks agreed on about a batch. `is_further_batch`: of the same step as the last
  // one.
  struct Agreement {
    std::int64_t global_examples = 0;  // in all batches of the step so far
    int least_readiness = 0;           // of all ranks
  };
  Agreement record_agreement(const Status& of_all, bool is_further_batch);
  // As GradientExchange::expect().
  std::int64_t expect(std::int64_t global_examples);
  // Whether ranks must agree before this rank's next forward pass, or before begin().
  bool must_agree_before_forward() const;
  bool must_agree_before_begin() const;
  // Whether this rank runs the passes of a batch of which it has `examples`. A rank without
  // examples does so if the passes exchange messages and another rank may have examples. After
  // record_agreement().
  bool takes_part(std::int64_t examples) const;

  // --- the batches of a step ---
  // Counts a batch, before its gradients are written or added to those of earlier batches in the
  // same StepScope.
  void add_batch(std::int64_t examples);
  // These describe the step under way.
  bool has_gradients() const { return gradients_of_ == StepScope::number(); }
  int batches() const { return has_gradients() ? batches_ : 0; }
  std::int64_t examples() const { return examples_; }
  // As Optimizer::set_examples().
  void set_examples(std::int64_t examples) { examples_ = examples; }
  // Ends the step: its gradients were used, or are dropped.
  void end_step();

  // --- the exchange of a step; collective ---
  // As GradientExchange::prepare().
  void prepare();
  // Whether begin() may be called before the step's last backward pass, so that gradients travel
  // during it; otherwise it is called afterwards.
  bool may_begin_early() const;
  // Begins the exchange, after add_batch() of the last batch. `global_examples`, the number of
  // examples on all ranks, is passed by all ranks or by none. A usage error if this process trains
  // alone and has fewer examples than that.
  // `after_passes`: all passes of the step were finished by finish_pass().
  void begin(std::optional<std::int64_t> global_examples, bool after_passes = false);
  bool has_begun() const { return has_begun_; }
  // As in GradientExchange: how the passes of a step are exchanged if ranks keep sums only.
  bool exchanges_each_pass() const {
    return gradient_exchange_ && gradient_exchange_->exchanges_each_pass();
  }
  void begin_pass();
  bool finish_pass();
  // During a backward pass: a parameter's gradient is final.
  void ready(Parameter& parameter) { gradient_exchange_->ready(parameter); }
  // Between two functions of a backward pass.
  void advance();
  // Ends the exchange. The arena then has the sums that this rank needs (SliceOwners::summed):
  // with double buffering, those of the step before.
  struct Sums {
    std::int64_t examples = 0;   // on all ranks; 0: there are no sums yet
    bool model_changed = false;  // on another rank: the sums are not of one model's gradients
  };
  Sums finish();
  // Puts the sums of the last step into the arena if no step has used them yet.
  std::optional<Sums> flush();
  // After a pass that failed: waits for gradients that have started to travel, and drops the step.
  void give_up();

  // --- between steps; collective ---
  // Call follow_arena() after a new arena was made, and leave_arena() before the old one is
  // destroyed.
  void follow_arena();
  void leave_arena() {
    gradient_exchange_.reset();
    has_begun_ = false;  // an error may have come between begin() and finish()
  }
  // After the settings changed.
  void follow_settings();
  // Before the communicator is replaced.
  void leave_communicator();

 private:
  bool has_agreed() const { return agreed_ && agreed_->step == StepScope::number(); }
  bool needs_status_message() const;
  // Whether gradients travel after the backward pass whatever the settings say: on a GPU, if layers
  // exchange messages.
  bool travels_after_backward() const;
  bool has_exchange() const;
  std::unique_ptr<GradientExchange> make_gradient_exchange();
  std::int64_t examples_on_gpu(std::optional<std::int64_t> global_examples) const;
  void write_notices(std::optional<std::int64_t> global_examples) const;
  Sums read_notices(std::optional<std::int64_t> global_examples);
  // Does `work`, for whose end this rank waits, and adds to times().
  template <class Work>
  std::optional<GradientExchange::Sums> timed(const Work& work);

  const TrainedModel& trained_;
  const OptimizerStates& states_;
  const StepGuard& guard_;
  const ExchangeSettings& settings_;
  // For double-buffered gradients. It outlives gradient_exchange_, because recordings may hold its
  // sums, and NCCL does not end a communicator before these recordings are gone.
  std::unique_ptr<Communicator> second_communicator_;
  std::unique_ptr<GradientExchange> gradient_exchange_;  // of the arena; null: no other ranks
  bool has_begun_ = false;
  TransferTimes times_;
  double transfer_seconds_before_ = 0;  // GradientExchange::transfer_seconds() when last added
  bool sends_status_ = false;           // ranks exchange a message before each step
  bool asked_to_stop_ = false;

  // The agreement of ranks, and the StepScope that it belongs to.
  struct Agreed {
    std::uint64_t step = 0;
    int batches = 0;                     // for which ranks have agreed
    std::int64_t examples_of_batch = 0;  // of the last one, on all ranks
    Agreement agreement;
  };
  std::optional<Agreed> agreed_;
  // The batches whose gradients are in the arena, and their StepScope.
  std::optional<std::uint64_t> gradients_of_;
  std::int64_t examples_ = 0;
  int batches_ = 0;
};

}  // namespace tasuki
