// Optimizer: keeps a model's parameters in one array, their gradients in another, and applies one
// update rule to them. The step is in optimizer_step.cpp; how the arrays are made, and what ranks
// compare and share of their models, in model_setup.cpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "optimizer/arena.hpp"
#include "optimizer/gradient_exchange.hpp"
#include "optimizer/hook.hpp"
#include "optimizer/optimizer_states.hpp"
#include "optimizer/parameter_group.hpp"
#include "optimizer/shared_weights.hpp"
#include "optimizer/step_guard.hpp"
#include "optimizer/trained_model.hpp"
#include "optimizer/update_rule.hpp"
#include "tensor/late.hpp"

namespace tasuki {

class GpuSteps;
class ParallelUpdater;
class UpdatePlan;

class Optimizer {
 public:
  explicit Optimizer(std::shared_ptr<const UpdateRule> rule);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // --- setup ---
  // Moves the model's parameters into one array and their gradients into another (arena.hpp). The
  // model must outlive the optimizer. Errors: a model without parameters; parameters without values
  // on rank 0 (Parameter::has_values), which would train from zeros; member layers that are not
  // registered and have no values (Module::unregistered_parameters). Multi-node: collective. If
  // models or optimizers differ between ranks, all throw (kind disagreement); otherwise all take
  // rank 0's parameters and buffers. A rank that lacks a parameter's shape adopts it from a rank
  // that knows it (from a file it has loaded).
  template <std::derived_from<Module> Model>
  void setup(Model& model) {
    setup(model, sizeof(Model));
  }
  // Rebuilds the arrays if something other than an update has given parameters their shape (such
  // as a loaded snapshot). Collective.
  void follow_shapes();

  // --- one step ---
  // Forward and backward pass, exchange, hooks and update: Chainer's update(lossfun).
  //   optimizer->update([&] { return mean_squared_error(model(x), t); }, x.shape()[0]);
  // `loss` returns the mean over this rank's `examples`; it is not called without examples, unless
  // another rank has some and the model's passes exchange messages (Module::communicates): then it
  // is called with a batch of no items, whose loss counts for nothing. It is called again whenever
  // a pass on any rank has given layers their shape. The gradient is the mean over the examples of
  // all ranks; parameters that the loss does not use get zero gradients.
  // Returns this rank's loss, undefined without examples. Collective. If no rank has examples,
  // nothing changes.
  //
  // If layers were added to the model or removed from it since the last update, the arrays are
  // rebuilt first: states are kept by path, new parameters start with zero states, t continues, and
  // rank 0's weights are broadcast again. If the model changed on only some ranks, every rank
  // throws (kind disagreement). A lazily shaped layer counts as added when the forward pass of any
  // rank gives its weights their shape; the other ranks adopt that shape, even if they had no
  // examples. While some parameters have no shape, each step costs two more small messages.
  Tensor update(const std::function<Variable()>& loss, std::int64_t examples);

  // The same in parts, inside one StepScope (tensor/late.hpp), for your own updaters and loops:
  //   const Variable loss = optimizer.forward([&] { return ...; }, examples);
  //   optimizer.update(optimizer.backward_and_exchange(loss, examples));
  //
  // Calls `loss` as above, with `always` also without examples: for a function in which another
  // optimizer's forward() is called. The first call in a step is collective; while some parameters
  // have no shape, and where the model's passes exchange messages, every call is.
  Variable forward(const std::function<Variable()>& loss, std::int64_t examples,
                   bool always = false);
  // Whether this rank runs the passes of a batch of which it has so many examples: see update().
  // Inside forward().
  bool takes_part(std::int64_t examples) const;
  // Adds the gradients of the sum over `examples` to those of earlier calls in this step. `loss`
  // may be undefined only where forward() does not call its function.
  void backward(const Variable& loss, std::int64_t examples);
  // Whether the graph of a loss outlives its backward pass, for that of another optimizer whose
  // loss was computed from a part of it. Default: no, which frees memory sooner.
  void keep_graphs(bool keeps) { keeps_graphs_ = keeps; }
  // The last call of backward() in a step, and what exchange() does: gradients travel while others
  // are computed (gradient_exchange.hpp). The communicator is busy meanwhile: functions that
  // communicate in their backward pass need one of their own (Communicator::split). If a rank
  // throws in its backward pass, all must, in the same function, or the job must end. Collective.
  std::int64_t backward_and_exchange(const Variable& loss, std::int64_t examples,
                                     std::optional<std::int64_t> global_examples = {});
  // Sums the gradients over the ranks and returns the number of examples on all ranks. With double
  // buffering, gradients and number are those of the step before; 0 means that there are none, and
  // that update() will change nothing. The caller passes this step's number if it knows it, on all
  // ranks or on none; otherwise the ranks add up their numbers together with the gradients (on a
  // GPU: in a message before the step). Without a communicator, a number that includes examples of
  // other ranks is a usage error. Collective.
  std::int64_t exchange(std::optional<std::int64_t> global_examples = {});
  // Divides by the number of examples, runs the hooks and applies the rule. Call it once per
  // StepScope. With `spread` (arena.hpp), the caller applies the rule to parts of the arena.
  void update(std::int64_t global_examples, const SpreadUpdate& spread = {});

  // With ExchangeMode::double_buffered: waits for the gradients of the last step and updates with
  // them, so that the model has learned from all steps; the next update then changes nothing. In
  // other modes it does nothing. Trainers call it before they evaluate and save, and at the end. It
  // must not be called within a step. Collective.
  void flush();

  // How gradients travel; the same on all ranks. Default: ExchangeSettings().
  void set_exchange(const ExchangeSettings& settings);
  const ExchangeSettings& exchange_settings() const { return exchange_settings_; }
  // After setup, of several ranks; null: this process trains alone.
  const GradientExchange* gradient_exchange() const { return exchange_.get(); }

  // Since this object was made.
  using TransferTimes = tasuki::TransferTimes;
  TransferTimes transfer_times() const;

  // Whether any rank was asked to stop (core/stop_request.hpp) before the last exchange: the same
  // on all ranks that exchange gradients (those of dummy do not).
  bool asked_to_stop() const { return asked_to_stop_; }

  // --- rates and hyper-parameters, by Chainer's names ("lr", "alpha", "beta1", ...) ---
  // An unknown name is a usage error that lists the known ones; a value out of range is a usage
  // error that states the range. Call set() with the same values on all ranks: setup() compares
  // them, but a difference that arises later is not detected.
  double get(const std::string& hyperparameter) const { return values_[hyperparameter]; }
  void set(const std::string& hyperparameter, double value) { values_.set(hyperparameter, value); }
  std::vector<std::string> hyperparameters() const { return values_.names(); }
  // "alpha" for Adam, AdamW and LAMB, "lr" for most others; empty for AdaDelta.
  std::string rate_name() const { return rule_->rate_name(); }
  // "weight_decay_rate" for AdamW and LAMB; empty where hooks alone decay weights.
  std::string decay_name() const { return rule_->decay_name(); }
  // The learning rate that the last update used; for Adam and AdamW it includes the bias
  // correction, alpha sqrt(1 - beta2^t) / (1 - beta1^t), as Chainer's observe_lr reports it. Empty
  // for AdaDelta, and before this object's first update.
  std::optional<double> learning_rate() const { return learning_rate_; }
  std::string name() const { return rule_->name(); }  // "Adam"
  // Number of updates done, including those that loss scaling skipped, but not those that
  // StepGuard::skip_non_finite() left out. setup() sets it to 0.
  std::int64_t t() const { return t_; }
  void set_t(std::int64_t t);

  // --- hooks ---
  // They change the mean gradient before each update, in the order in which they were added. Call
  // add_hook() between updates, identically on all ranks.
  void add_hook(std::shared_ptr<OptimizerHook> hook);
  const std::vector<std::shared_ptr<OptimizerHook>>& hooks() const;

  // --- parameter groups ---
  // Gives matching parameters their own settings (parameter_group.hpp), including parameters that
  // are added later. Groups cost no extra pass over memory and no kernel launch. Call it between
  // updates, identically on all ranks. An update throws a usage error if a group has never matched
  // a parameter, or if a group's rate factor puts a value out of range.
  using Group = ParameterGroup;
  void add_group(Group group);
  const std::vector<Group>& groups() const;

  // --- frozen parameters ---
  // Parameters whose paths match (parameter_group.hpp), including those that are added later, get
  // no gradient and are neither exchanged nor updated. For each path, the last matching call of
  // freeze() or unfreeze() counts. Frozen parameters stay in the arena, behind the others, and in
  // snapshots, and keep their states. Running statistics of frozen layers are still updated. Call
  // these between updates, identically on all ranks; they take effect with the next update, which
  // rebuilds the arrays. A pattern that matches no parameter of the model is a usage error; if it
  // was given before setup(), setup() throws it. Unfreezing does not reset t, so Adam does not
  // correct the bias of states that begin at 0 at that point: with its default beta1 and beta2, the
  // first updates of parameters that were frozen from the start are about three times as large as
  // those of a new optimizer.
  void freeze(const std::string& pattern);
  void unfreeze(const std::string& pattern);
  const FrozenPaths& frozen() const { return frozen_; }
  // Replaces the frozen set by a snapshot's and drops the states of frozen parameters; those that
  // the snapshot has are loaded afterwards. Collective.
  void freeze_only(const FrozenPaths& frozen);

  // --- what stands beside it ---
  // What the rule keeps for each parameter, and how ranks divide it.
  OptimizerStates& states() { return states_; }
  const OptimizerStates& states() const { return states_; }
  // Who has which set of the weights.
  SharedWeights& weights() { return weights_; }
  const SharedWeights& weights() const { return weights_; }
  // What keeps numbers that are not finite out of the model.
  StepGuard& guard() { return guard_; }
  const StepGuard& guard() const { return guard_; }

  // --- precision ---
  // Sets the type that the model computes in on its device: float32, or a 16-bit type, for which a
  // rounded copy of the weights is kept (ParameterArena::keep_rounded). Updaters and evaluators
  // convert batches to it. May be called before or after setup().
  void compute_in(DType type);
  DType compute_type() const { return compute_type_; }

  // --- after setup() ---
  Module& model() const { return trained_.checked_model(); }
  const ParameterArena& arena() const { return trained_.checked_arena(); }
  // Null: one process.
  Communicator* communicator() const { return trained_.communicator; }
  // Advances when arrays, hooks, groups, precision or loss scaling change.
  const Revision& revision() const { return trained_.revision; }

 private:
  friend std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer>,
                                                                Communicator&);
  friend class GpuSteps;
  friend class ParallelUpdater;

  // For code that runs steps on a GPU. Adapts to a changed model and exchanges one small message
  // between the hosts, while the device may still be busy with the previous step. If the model
  // changed on only some ranks, all throw (kind disagreement). forward() and exchange() call it
  // unless it was already called in this StepScope; where the model's passes exchange messages,
  // forward() calls it for each batch. Collective.
  //   On CPUs there is a message only if the model's passes exchange messages or gradients are
  // double-buffered; a single process never sends one. Without a message the result has this rank's
  // own numbers, and exchange() returns the examples of all ranks. `level`, 0 to 3, is for callers
  // that must choose alike on all ranks. In a step of several batches, call it for the first batch
  // only, or for each; `adds` says that this is not the first one.
  struct Agreement {
    std::int64_t global_examples = 0;  // in the batches so far
    int least_level = 0;               // of all ranks
  };
  Agreement meet(std::int64_t examples, int level = 0, bool adds = false);
  // Sets the number of examples behind this rank's gradients, for callers that do not pass all of
  // them through backward().
  void set_examples(std::int64_t examples) { examples_ = examples; }

  // After a step whose recording failed before any of its work was done. Its gradients do not
  // count.
  void give_up_step() {
    if (exchange_) exchange_->give_up();
    gradients_of_.reset();
    guard_.end_step();
  }
  // What that work depends on besides its batch; the same on all ranks.
  std::string kind_of_step() const { return exchange_ ? exchange_->kind_of_step() : ""; }
  // Whether later steps ask a GPU for the same work as this one, on all ranks.
  bool repeats_steps() const { return !exchange_ || exchange_->is_settled(); }

  bool has_met() const;
  bool must_tell_ahead() const;
  // Checks that all ranks have the same optimizer and model; `changed`: since the last update.
  void check_same_everywhere(bool changed) const;
  void build_arena();
  void setup(Module& model, std::size_t size_of_model);
  void plan_changed();
  void follow_changed_model();
  Agreement send_ahead(std::int64_t own_examples, int own_level, bool model_changed);
  Variable run_forward(const std::function<Variable()>& loss, bool calls_it);
  void run_backward(const Variable& loss, std::int64_t examples,
                    const Variable::GradientReady& ready);
  void check_examples(std::optional<std::int64_t> global_examples) const;
  // Writes the numbers that travel behind the gradients into the arena.
  void write_notices(std::optional<std::int64_t> global_examples);
  void prepare_exchange();
  // Whether gradients travel after the backward pass whatever the settings say: on a GPU, if layers
  // exchange messages.
  bool exchanges_after_backward() const;
  void drop_exchange();
  void begin_exchange(std::optional<std::int64_t> global_examples);
  std::int64_t exchange_over_ranks(std::optional<std::int64_t> global_examples);
  // Reads the sums of these numbers; returns the number of examples.
  std::int64_t read_notices(std::optional<std::int64_t> global_examples);
  void apply(std::int64_t global_examples, const SpreadUpdate& spread);

  std::shared_ptr<const UpdateRule> rule_;
  ExchangeSettings exchange_settings_;
  TrainedModel trained_;
  SharedWeights weights_;
  OptimizerStates states_;
  StepGuard guard_;
  Hyperparameters values_;
  std::int64_t t_ = 0;
  std::optional<double> learning_rate_;
  bool asked_to_stop_ = false;
  std::unique_ptr<UpdatePlan> plan_;
  // For double-buffered gradients. It is kept when exchange_ is replaced: recordings may hold its
  // sums, and NCCL does not end a communicator before these recordings are gone.
  std::unique_ptr<Communicator> second_communicator_;
  std::unique_ptr<GradientExchange> exchange_;  // of the arena, among several ranks
  bool tells_ahead_ = false;  // ranks exchange a message before each step: send_ahead()
  FrozenPaths frozen_;
  bool graph_is_checked_ = false;  // since arenas were made
  bool keeps_graphs_ = false;
  DType compute_type_ = DType::float32;

  // Of the step under way: what was agreed, and the examples of backward(), each with the
  // StepScope it belongs to.
  struct Met {
    std::uint64_t step = 0;
    int batches = 0;                     // for which it was called
    std::int64_t examples_of_batch = 0;  // of the last one, on all ranks
    Agreement agreement;
  };
  std::optional<Met> met_;
  std::optional<std::uint64_t> gradients_of_;
  std::int64_t examples_ = 0;
  int batches_ = 0;              // calls of backward()
  TransferTimes earlier_times_;  // of exchanges before exchange_
  AfterStep counted_;
};

// Creates an optimizer by its `--optimizer` key: sgd, momentum_sgd, nesterov, adam, adamw, lamb,
// rmsprop, adagrad, adadelta, with Chainer's defaults, or a rule added by RuleRegistration. An
// unknown key is a usage error that lists the known ones.
std::unique_ptr<Optimizer> create_optimizer(const std::string& key);
std::vector<std::string> optimizer_names();

// Makes each update sum the gradients of all ranks first. setup() broadcasts rank 0's weights, and
// the next update does so again if the model's set of parameters has changed; unlike in ChainerMN,
// no batch is used up for this. The communicator must outlive the optimizer. An optimizer that had
// another communicator uses its double-buffered gradients first (flush(), collective among the
// former ranks); recordings of its steps must be gone.
std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator);

}  // namespace tasuki
