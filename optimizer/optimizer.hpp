// Optimizer: owns the arenas of a model's parameters and gradients, and applies one update rule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/nn/module.hpp"
#include "tasuki/optimizer/arena.hpp"
#include "tasuki/optimizer/hook.hpp"
#include "tasuki/optimizer/loss_scaler.hpp"
#include "tasuki/optimizer/rule.hpp"
#include "tasuki/tensor/step_block.hpp"

namespace tasuki {

// What one step is about: the local batch's mean loss and how many examples stand behind it.
struct Step {
  // Forward pass; not called when examples == 0. Called once, and once more when parameters got
  // their shape in it: what else it does must be the same for that.
  std::function<Variable()> loss;
  std::int64_t examples = 0;         // of the local batch, behind the mean
  std::int64_t global_examples = 0;  // of all ranks together (equal to examples with one rank)
  bool may_be_recorded = false;      // for Optimizer::prepare: that its device work may be recorded
};

// A step whose two halves somebody else does, who has several threads or devices for them.
struct StepInParts {
  // Leaves the sum over the step's local examples in every element of arena().gradients().
  std::function<void()> gradients;
  // Does what Backend::update does, on the arena's device.
  std::function<void(const UpdateStep& update)> apply;
  std::int64_t global_examples = 0;
};

class Optimizer {
 public:
  // With a communicator, setup() and update() are collective (create_multi_node_optimizer).
  explicit Optimizer(OptimizerRule rule, Communicator* communicator = nullptr);

  // Moves the model's parameters into arenas. The model must outlive the optimizer. Multi-node:
  // shapes that some ranks lack (of a file that one of them has loaded) are those of the others,
  // ranks whose models or optimizers differ are told so (ErrorKind::disagreement), then all take
  // rank 0's parameters and buffers. A model without parameters, or with some that have no values
  // yet (on rank 0; Parameter::has_values), is an error: it would train nothing, or from zeros.
  void setup(Module& model);

  // Forward, backward, exchange (multi-node only), hooks and update. The gradient is the mean over
  // global_examples. Parameters that the loss does not use count as zero gradients. A step without
  // any examples changes nothing.
  //
  // When layers were added to the model (or taken from it) since the last update, new arenas are
  // made first: states are kept by path, new parameters start with zero states, t goes on, and rank
  // 0's weights are sent again. If only some ranks did so, every rank throws
  // (ErrorKind::disagreement). A lazily shaped layer is a layer that is added when its weights get
  // their shape, in the forward pass of any rank: the others take it, whether or not they had
  // examples, and the pass is done again with rank 0's weights. While a model has parameters
  // without a shape, each step costs two small messages more.
  void update(const Step& step);
  // The same in parts. The model must have the parameters it had in the last setup() or update().
  void update_in_parts(const StepInParts& step);

  // update() in three parts, for steps whose device work is recorded and repeated. prepare() is the
  // host's part: it follows a changed model, and writes what differs from step to step into the
  // block that was joined (one at a time; leave() before the block goes). perform() asks the device
  // for everything, alike in all steps with the same numbers of examples. complete() counts the
  // update. Not called without any examples.
  void join(StepBlock& block);
  void leave() { block_ = nullptr; }
  //
  // prepare() returns whether all ranks have as many examples in this step and all would record it:
  // exchanges are recorded on all ranks or on none.
  bool prepare(const Step& step);
  void perform(const Step& step);
  void complete();
  // Notes the moments of exchanges there (tensor/step_clock.hpp); an undefined tensor ends that.
  void stamp_exchanges(const Tensor& clock) { clock_ = clock; }
  // In the first call since arenas were made, checks that parameters which `loss` was computed from
  // have values: those of a layer that its module did not register have none, and would not be
  // trained. One that has values but no optimizer is a warning. update() calls it
  // before the backward pass.
  void check_graph(const Variable& loss);
  // How often arenas were made: recordings of perform() belong to one of these.
  std::int64_t arenas_made() const { return arenas_made_; }
  // Why perform() cannot be recorded; empty when it can.
  std::string why_not_recorded() const;
  // Whether all ranks say yes. Collective.
  bool all_ranks(bool yes) const;

  // Whether any rank was asked to stop (core/stop_request.hpp) before it exchanged gradients in the
  // last update: the same on all ranks after each update. Only of those that communicator()
  // connects, and only if it sums gradients (dummy does not).
  bool asked_to_stop() const { return asked_to_stop_; }
  // Null without one.
  Communicator* communicator() const { return communicator_; }

  // Makes the arenas anew where something else than an update has given parameters their shape (a
  // snapshot that was loaded). Collective, like an update.
  void follow_shapes();

  // From now on keeps the weights rounded to `type`, too, for operations on activations of that
  // type (ParameterArena::keep_rounded); float32 ends that. Before or after setup().
  void keep_rounded_weights(DType type);

  // Dynamic loss scaling, for gradients that pass through float16; after setup().
  void scale_losses(const LossScaler::Settings& settings);
  // nullptr without it.
  const LossScaler* loss_scaler() const { return loss_scaler_ ? &*loss_scaler_ : nullptr; }

  const std::string& name() const { return rule_.title; }  // "Adam"
  // Number of updates done.
  std::int64_t t() const { return t_; }
  void set_t(std::int64_t t);
  // Seconds that updates of this object spent exchanging gradients, waiting for other ranks
  // included; 0 without a communicator.
  double exchange_seconds() const { return exchange_seconds_; }

  // Hyper-parameters by Chainer's names ("lr", "momentum", "alpha", "beta1", ...). An unknown name
  // is a usage error that lists the known ones, a value out of range one that says the range.
  double get(const std::string& hyperparameter) const;
  void set(const std::string& hyperparameter, double value);
  std::vector<std::string> hyperparameters() const;
  // "alpha" for Adam and AdamW, "lr" otherwise; empty for AdaDelta.
  const std::string& rate_name() const { return rule_.rate_name; }
  // The learning rate of the last update, whatever was set since: Adam's and AdamW's with bias
  // correction, alpha sqrt(1 - beta2^t) / (1 - beta1^t), as Chainer's observe_lr reports it.
  // Nothing for AdaDelta, and before this object's first update.
  std::optional<double> learning_rate() const { return learning_rate_; }

  // Runs on the mean gradient before each update, in order of addition.
  void add_hook(std::shared_ptr<OptimizerHook> hook);
  // With their settings: "WeightDecay(0.0005)".
  std::vector<std::string> hook_names() const;

  // After setup() only:
  Module& model() const;
  ParameterArena& arena() const;
  // State arrays in arena order, by Chainer's names ("v"; "m", "v"; "ms"; "h"; "msg", "msdx").
  struct StateArray {
    std::string name;
    Tensor values;  // as many elements as the arena
  };
  const std::vector<StateArray>& states() const { return states_; }

 private:
  friend std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer>,
                                                                Communicator&);

  // Checks that all ranks have the same optimizer and model; `changed`: since the last update.
  void check_same_everywhere(bool changed) const;
  void build_arena();
  void check_model() const;
  void follow_changed_model();
  // Tells the other ranks before a step on a GPU whether this rank's model changed; returns what
  // prepare() does.
  bool announce_step(const Step& step, bool model_changed);
  // Gives those of `candidates` (alike on all ranks) that have a shape on some ranks the same one
  // on all; whether there were any.
  bool share_shapes(const std::vector<Module::NamedParameter>& candidates) const;
  // Before there are arenas.
  void share_first_shapes() const;
  Variable forward(const Step& step);
  void compute_gradients(const Step& step);
  void exchange_gradients(std::int64_t global_examples);
  using Apply = std::function<void(const UpdateStep& update)>;
  // From local sums in the arena to new weights.
  void finish_update(std::int64_t global_examples, const Apply& apply);

  OptimizerRule rule_;
  Communicator* communicator_;
  std::vector<double> hyperparameters_;  // in the rule's order
  std::int64_t t_ = 0;
  std::optional<double> learning_rate_;
  double exchange_seconds_ = 0;
  bool asked_to_stop_ = false;
  std::vector<std::shared_ptr<OptimizerHook>> hooks_;
  Module* model_ = nullptr;
  std::unique_ptr<ParameterArena> arena_;
  std::vector<StateArray> states_;
  std::optional<LossScaler> loss_scaler_;
  std::int64_t arenas_made_ = 0;
  bool graph_is_checked_ = false;  // since arenas were made
  DType rounded_type_ = DType::float32;
  Tensor clock_;
  StepBlock* block_ = nullptr;
  StepBlock::Field factors_;  // rate and constants of the update
};

// By name as in `--optimizer`: sgd, momentum_sgd, nesterov, adam, adamw, rmsprop, adagrad,
// adadelta; Chainer's defaults.
std::unique_ptr<Optimizer> create_optimizer(const std::string& name);
const std::vector<std::string>& optimizer_names();

// Makes each update of an optimizer sum the gradients of all ranks first. Rank 0's weights are
// broadcast by setup(), and again when the model's set of parameters has changed; no batch is spent
// on it. The communicator must outlive the optimizer.
std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator);

}  // namespace tasuki
