// Optimizer: trains a model by an update rule. It keeps the model's parameters in one array and
// their gradients in another, and changes them step by step.
//
// Its parts have headers of their own: the states of its rule (optimizer_states.hpp), weights that
// ranks share (shared_weights.hpp), protection against numbers that are not finite
// (step_guard.hpp), the exchange between ranks in a step (step_exchange.hpp), and steps of several
// shards (sharded_step.hpp). The step is in
// optimizer_step.cpp; making the arrays and comparing models between ranks in model_setup.cpp.
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
#include "optimizer/hook.hpp"
#include "optimizer/optimizer_states.hpp"
#include "optimizer/parameter_group.hpp"
#include "optimizer/sharded_step.hpp"
#include "optimizer/sharding.hpp"
#include "optimizer/shared_weights.hpp"
#include "optimizer/step_exchange.hpp"
#include "optimizer/step_guard.hpp"
#include "optimizer/trained_model.hpp"
#include "optimizer/update_rule.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

class DividedWeights;
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
  // registered and have no values (Module::unregistered_parameters). Collective if there is a
  // communicator. If models or optimizers differ between ranks, all throw ErrorKind::disagreement;
  // otherwise all take rank 0's parameters and buffers. A rank that does not know a parameter's
  // shape yet takes it from one that does, such as one that has loaded a file.
  template <std::derived_from<Module> Model>
  void setup(Model& model) {
    setup(model, sizeof(Model));
  }
  // Rebuilds the arrays if parameters got their shape from something other than an update, such as
  // a loaded snapshot. Collective.
  void follow_shapes();

  // --- one step ---
  // Forward and backward pass, exchange, hooks and update: Chainer's update(lossfun).
  //   optimizer->update([&] { return mean_squared_error(model(x), t); }, x.shape()[0]);
  // `loss` returns the mean over this rank's `examples`. Without examples it is not called, unless
  // another rank has some and the model's passes exchange messages (Module::communicates): then it
  // is called and must return the loss of an empty batch, which counts with weight 0. If the
  // pass gave layers their shape on any rank, it is called again in the same step. The gradient is
  // the mean over the examples of all ranks; parameters that the loss does not use get zero
  // gradients. Returns this rank's loss, undefined if `loss` was not called. If no rank has
  // examples, nothing changes. Collective.
  //
  // If layers were added or removed since the last update, the arrays are rebuilt first: states are
  // kept by path, new parameters start with zero states, t continues, and rank 0's weights are
  // broadcast again. If the model changed on only some ranks, every rank throws
  // ErrorKind::disagreement. A layer without a size counts as added when the forward pass of any
  // rank gives its weights their shape; the other ranks adopt that shape, even without examples.
  // While some parameters have no shape, each step costs two more small messages.
  Tensor update(const std::function<Variable()>& loss, std::int64_t examples);

  // update() in parts, for your own updaters and loops. In a loop, one StepScope
  // (tensor/late_values.hpp) encloses a step; without succeeded(), t() does not count the step. In
  // updaters, BatchUpdater opens the scope.
  //   StepScope step;
  //   const Variable loss = optimizer.forward([&] { return ...; }, examples);
  //   optimizer.update(optimizer.backward_and_exchange(loss, examples));
  //   step.succeeded();
  //
  // Calls `loss` as above. `always`: also if this rank has no examples; needed if `loss` calls
  // another optimizer's forward(). The first call in a step is collective; so is every call while
  // some parameters have no shape, or if the model's passes exchange messages.
  Variable forward(const std::function<Variable()>& loss, std::int64_t examples,
                   bool always = false);
  // Accumulates the gradients of this step, weighted by `examples`. `loss` may be undefined only if
  // forward() did not call its function.
  void backward(const Variable& loss, std::int64_t examples);
  // If `keeps`, backward() keeps the graph of its loss, for another optimizer whose loss shares a
  // part of it. Default: it does not, which frees memory sooner.
  void keep_graphs(bool keeps) { keeps_graphs_ = keeps; }
  // The step's last backward() and its exchange() in one: gradients travel while others are
  // computed (gradient_exchange.hpp). The communicator is busy meanwhile: functions that
  // communicate in their backward pass need one of their own (Communicator::split). If all ranks
  // throw in the backward pass of the same function of the graph, they can go on. If only some
  // throw, the others learn of it as communicator/leave.hpp says, and the communicator can only be
  // destroyed. Collective.
  std::int64_t backward_and_exchange(const Variable& loss, std::int64_t examples,
                                     std::optional<std::int64_t> global_examples = {});
  // Sums the gradients over the ranks and returns the number of examples on all ranks. With double
  // buffering, gradients and number are the previous step's; 0 means that there are none yet,
  // and update() will change nothing. `global_examples`: the number of examples in this step on
  // all ranks together. Pass it on all ranks or on none; without it, the ranks add up their numbers
  // together with the gradients (on a GPU: in a message before the step). Without a communicator, a
  // number that includes examples of other ranks is a usage error. Collective.
  std::int64_t exchange(std::optional<std::int64_t> global_examples = {});
  // Divides the gradients by the number of examples, runs the hooks and applies the rule. Call it
  // once per StepScope. With `spread` (arena.hpp), the caller applies the rule to parts of the
  // arena.
  void update(std::int64_t global_examples, const SpreadUpdate& spread = {});

  // With ExchangeMode::double_buffered: waits for the gradients of the last step and updates with
  // them, so that the model has learned from all steps; the next update then changes nothing. Does
  // nothing in other modes. Trainers call it before they evaluate and save, and at the end. Must
  // not be called within a step. Collective.
  void flush();
  // Sets how and when gradients are exchanged; pass the same settings on all ranks. Default:
  // ExchangeSettings(). Collective.
  void set_exchange(const ExchangeSettings& settings);

  // --- the same bits for any number of ranks ---
  // Divides steps into `shards` parts, a multiple of the number of ranks; rank r of R computes
  // shards r * shards / R and following. Each shard is computed by itself, by one thread
  // (set_cpu_threads), and what shards have computed is added in an order that depends on nothing
  // but their number (communicator/algorithms/shard_tree.hpp): gradients, and running statistics,
  // which are averaged (ShardStatistics). So weights and states do not depend on the number of
  // ranks, their placement and the communicator, if the passes of a shard do not. 0: steps are not
  // divided, as at first. On CPUs only. Pass the same number on all ranks. Collective.
  //   for (std::int64_t shard = ...) {
  //     optimizer.begin_shard(shard);
  //     optimizer.backward(optimizer.forward([&] { return ...; }, examples), examples);
  //   }
  //   optimizer.update(optimizer.exchange());
  void set_shards(std::int64_t shards);
  std::int64_t shards() const { return trained_.shards; }
  // What follows, up to the next call or exchange(), is this shard's. All shards of the rank are
  // begun in each step, in their order, also those without examples.
  void begin_shard(std::int64_t shard);

  // Several threads of this process, each of which computes whole shards: thread 0 with the model,
  // as above, and thread i with copies[i - 1]. Thread i has the i-th part of this rank's shards
  // (part_of()), so there are no more threads than shards. The copies have parameters of the same
  // paths and shapes as the model, and buffers of the same shapes; they read the model's weights
  // and must outlive this setting. `spread` divides sums and updates among the same threads. No
  // copies: one thread, as at first. Call it between steps, after set_shards() and setup(); ranks
  // may have different numbers of threads.
  //   optimizer.agree_on_step(examples of all shards); optimizer.begin_threads();
  //   in each thread: its shards_of(thread), as above, in thread i > 0 with
  //     optimizer.begin_shard(shard);
  //     optimizer.backward_in(i, loss of copy i - 1, examples);
  //   and at its end optimizer.end_thread(i);
  //   then, if none has failed (give_up_step()):
  //   optimizer.set_examples(examples of all shards); optimizer.update(optimizer.exchange());
  void set_copies(std::vector<Module*> copies, SpreadUpdate spread = {});
  // With shards() and after setup(): the shards of this rank, and of one of its threads.
  Range own_shards() const { return sharded_.shards(); }
  Range shards_of(std::size_t thread) const { return sharded_.shards_of(thread); }
  void begin_threads() { sharded_.begin_step(); }
  // Between steps: makes the copies read the weights of arrays that were made again.
  void tie_copies() { sharded_.tie_copies(); }
  // `loss` may be undefined without examples.
  void backward_in(std::size_t thread, const Variable& loss, std::int64_t examples);
  void end_thread(std::size_t thread) { sharded_.end_thread(thread); }

  // For code that runs steps on a GPU. Adapts to a changed model, and makes the ranks agree on what
  // a step needs (StepExchange::Status) while the device may still be busy with the previous step.
  // If the model changed on only some ranks, all throw ErrorKind::disagreement. forward() and
  // exchange() call it unless it was already called in this StepScope; if the model's passes
  // exchange messages, forward() calls it for each batch. If the numbers travel with the gradients
  // (on CPUs), the result has this rank's own numbers only, and exchange() returns the examples of
  // all ranks. `readiness`, 0 to 3, is for callers that must choose alike on all ranks: the result
  // holds the lowest value of any rank. In a step of several batches, call it for the first batch
  // only, or for each, with `is_further_batch` after the first. Collective.
  StepExchange::Agreement agree_on_step(std::int64_t examples, int readiness = 0,
                                        bool is_further_batch = false);
  // The number of examples that this rank's gradients are sums over, for callers that do not pass
  // all of them through backward(). Call it before exchange().
  void set_examples(std::int64_t examples) { exchange_.set_examples(examples); }
  // Drops the gradients of a step: its capture as a CUDA graph failed before any of its work ran,
  // or one of several threads has failed and all have ended.
  void give_up_step();

  // --- rates and hyper-parameters, by Chainer's names ("lr", "alpha", "beta1", ...) ---
  // Unknown names and values out of range are usage errors that list what is allowed. Call set()
  // with the same values on all ranks: setup() compares them; later differences are noticed only
  // when the arrays are made again.
  double get(const std::string& hyperparameter) const { return values_[hyperparameter]; }
  void set(const std::string& hyperparameter, double value) { values_.set(hyperparameter, value); }
  std::vector<std::string> hyperparameters() const { return values_.names(); }
  const UpdateRule& rule() const { return *rule_; }
  // The learning rate that the last update used; for Adam and AdamW it includes the bias
  // correction, alpha sqrt(1 - beta2^t) / (1 - beta1^t), as Chainer's observe_lr reports it. Empty
  // for AdaDelta, and before this object's first update.
  std::optional<double> learning_rate() const { return learning_rate_; }
  // The number of updates attempted, including those that loss scaling skipped, but not those that
  // StepGuard::skip_non_finite() left out. setup() sets it to 0.
  std::int64_t t() const { return t_; }
  void set_t(std::int64_t t);
  // The arena's gradients times this factor are the gradients that the last update used, without
  // the factors of the last hooks (such as weight decay). Ranks that divide the states have them in
  // their own slices only (OptimizerStates::owners).
  double gradient_scale() const;

  // --- hooks ---
  // They change the mean gradient before each update, in the order in which they were added. Call
  // add_hook() between updates, identically on all ranks.
  void add_hook(std::shared_ptr<OptimizerHook> hook);
  const std::vector<std::shared_ptr<OptimizerHook>>& hooks() const;

  // --- parameter groups ---
  // Gives matching parameters their own settings (parameter_group.hpp), including parameters that
  // are added later. Groups cost no extra pass over memory and no kernel launch. Call it between
  // updates, identically on all ranks. An update throws a usage error if a group has never matched
  // a parameter, or if its rate factor puts a value out of range.
  using Group = ParameterGroup;
  void add_group(Group group);
  const std::vector<Group>& groups() const;

  // --- frozen parameters ---
  // Parameters whose paths match (parameter_group.hpp), including parameters that are added later,
  // get no gradient and are neither exchanged nor updated. For each path, the last matching call of
  // freeze() or unfreeze() counts. Frozen parameters keep their states, stay in the arena after the
  // others, and are saved in snapshots. Running statistics of frozen layers are still updated. Call
  // these functions between updates, identically on all ranks; they take effect with the next
  // update, which rebuilds the arrays. A pattern that matches no parameter of the model is a usage
  // error, which setup() throws for patterns given before it. Unfreezing does not reset t, so Adam
  // does not correct the bias of states that start from 0 at that point: with the default beta1 and
  // beta2, the first updates of parameters frozen from the start are about three times as large as
  // a new optimizer's.
  void freeze(const std::string& pattern);
  void unfreeze(const std::string& pattern);
  const FrozenPaths& frozen() const { return frozen_; }
  // Replaces the frozen set by a snapshot's and drops the states of frozen parameters; the caller
  // then loads the states that the snapshot has. Collective.
  void freeze_only(const FrozenPaths& frozen);

  // --- what ranks divide ---
  // As Sharding says; `states` is OptimizerStates::shard(true). Default: none. Has no effect with a
  // single rank. Call it before setup(), identically on all ranks. With `gradients`, backward() is
  // collective, as backward_and_exchange() is; Parameter::grad() has sums after an exchange, in the
  // rank's own slice only; gradients of passes outside of the optimizer (Variable::backward)
  // overwrite each other; and some settings of the exchange are refused (exchange_settings.hpp).
  //   With `weights`, parameters have values during forward() and backward() and in evaluating()
  //   only,
  // in the thread that calls these; Parameter::read_value() and write_value() are for other code.
  // backward() must follow each forward(), and passes use layers in the same order. `units`:
  // patterns of modules whose weights are gathered together (weight_units.hpp).
  void shard(Sharding what, std::vector<std::string> units = {});
  Sharding sharding() const { return sharding_; }
  // Whether `weights` has an effect. After setup().
  bool divides_weights() const { return divided_ != nullptr; }
  // Runs a pass of the model without gradients, such as an evaluator's batch. With
  // divides_weights() it is collective, and ranks without a batch pass a function that does
  // nothing.
  void evaluating(const std::function<void()>& pass);
  // The memory that weights take on this rank during a pass, with its part of what a node shares.
  // After setup().
  std::size_t weight_bytes() const;
  // The memory that gradients take on this rank. After setup().
  std::size_t gradient_bytes() const;

  // --- precision ---
  // Sets the type in which the model computes on its device: float32, or a 16-bit type, for which a
  // rounded copy of the weights is kept (ParameterArena::keep_rounded). Updaters and evaluators
  // convert batches to this type. May be called before or after setup().
  void compute_in(DType type);
  DType compute_type() const { return compute_type_; }

  // --- its parts ---
  OptimizerStates& states() { return states_; }
  const OptimizerStates& states() const { return states_; }
  SharedWeights& weights() { return weights_; }
  const SharedWeights& weights() const { return weights_; }
  StepGuard& guard() { return guard_; }
  const StepGuard& guard() const { return guard_; }
  const StepExchange& step_exchange() const { return exchange_; }

  // --- after setup() ---
  Module& model() const { return trained_.checked_model(); }
  const ParameterArena& arena() const { return trained_.checked_arena(); }
  Communicator* communicator() const { return trained_.communicator; }  // null: one process
  // Advances when arrays, hooks, groups, precision, guard or exchange change.
  const Revision& revision() const { return trained_.revision; }

 private:
  friend std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer>,
                                                                Communicator&);

  void setup(Module& model, std::size_t size_of_model);
  void build_arena();
  bool will_keep_sums_only() const;
  bool will_divide_weights() const;
  std::optional<ParameterArena::DividedValues> divide_values(bool has_same_parameters) const;
  void divide_weights();
  void end_weights_pass();
  void plan_changed();
  // Checks that all ranks have the same optimizer and model; `changed`: since the last update.
  void check_same_everywhere(bool changed) const;
  Variable run_forward(const std::function<Variable()>& loss, bool calls_it);
  // Counts a batch; returns whether this rank runs its backward pass.
  bool begin_backward(const Variable& loss, std::int64_t examples);
  void run_backward(const Variable& loss, std::int64_t examples);
  // Whether a backward pass of this optimizer passes by a parameter, because another one updates
  // it. `entries`: those of the model or of a copy.
  static std::function<bool(const Parameter&)> leaves_out(
      const std::vector<ParameterArena::Entry>& entries);
  void give_up_pass();
  std::int64_t finish_exchange();
  void apply(std::int64_t global_examples, const SpreadUpdate& spread);

  std::shared_ptr<const UpdateRule> rule_;
  ExchangeSettings exchange_settings_;
  TrainedModel trained_;
  SharedWeights weights_{trained_};
  OptimizerStates states_{rule_, trained_, weights_};
  StepGuard guard_{trained_, states_, exchange_settings_};
  StepExchange exchange_{trained_, states_, guard_, exchange_settings_};
  ShardedStep sharded_{trained_};
  Hyperparameters values_;
  std::int64_t t_ = 0;
  std::optional<double> learning_rate_;
  std::unique_ptr<UpdatePlan> plan_;
  FrozenPaths frozen_;
  Sharding sharding_ = Sharding::none;
  std::vector<std::string> unit_patterns_;
  std::shared_ptr<Communicator> gathering_;  // of weights, in the background
  std::shared_ptr<DividedWeights> divided_;  // null: weights are whole on each node
  DType compute_type_ = DType::float32;
  bool graph_is_checked_ = false;  // since arrays were made
  bool keeps_graphs_ = false;
  AfterStep counted_;
};

// Creates an optimizer by its `--optimizer` key: sgd, momentum_sgd, nesterov, adam, adamw, lamb,
// rmsprop, adagrad, adadelta, with Chainer's defaults (LAMB, which Chainer lacks, has its own), or
// a rule added by RuleRegistration. An unknown key is a usage error that lists the known ones.
std::unique_ptr<Optimizer> create_optimizer(const std::string& key);
std::vector<std::string> optimizer_names();

// Makes each update sum the gradients of all ranks first. setup() broadcasts rank 0's weights; if
// it was called before, this function does so itself and is collective. An update broadcasts them
// again if the model's set of parameters has changed; unlike in ChainerMN, no batch is used up for
// this. The communicator must outlive the optimizer. If the optimizer had
// another communicator, it first uses its double-buffered gradients (flush(), collective among the
// former ranks). Destroy CUDA graphs recorded from its steps before you call this.
std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator);

}  // namespace tasuki
