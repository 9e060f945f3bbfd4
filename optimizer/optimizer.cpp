#include "tasuki/optimizer/optimizer.hpp"

#include <algorithm>
#include <utility>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/log.hpp"

namespace tasuki {
namespace {

std::size_t index_of(const OptimizerRule& rule, const std::string& hyperparameter) {
  std::string known;
  for (std::size_t i = 0; i < rule.hyperparameters.size(); ++i) {
    if (rule.hyperparameters[i].name == hyperparameter) return i;
    known += (i ? ", " : "") + rule.hyperparameters[i].name;
  }
  fail_everywhere(ErrorKind::usage, "{} has no hyper-parameter \"{}\"; it has {}", rule.title,
                  hyperparameter, known);
}

// Of a parameter that no model knows, so that it has no path.
std::string text_of(const Parameter& parameter) {
  const std::string layer = parameter.layer();
  return fmt::format("a parameter {} ({}){}", parameter.name(), parameter.shape_text(),
                     layer.empty() ? "" : " of a layer " + layer);
}

}  // namespace

Optimizer::Optimizer(OptimizerRule rule, Communicator* communicator)
    : rule_(std::move(rule)), communicator_(communicator) {
  for (const Hyperparameter& parameter : rule_.hyperparameters)
    hyperparameters_.push_back(parameter.initial);
}

void Optimizer::set_t(std::int64_t t) {
  TASUKI_CHECK(t >= 0, "the number of updates done cannot be {}", t);
  t_ = t;
}

double Optimizer::get(const std::string& hyperparameter) const {
  return hyperparameters_[index_of(rule_, hyperparameter)];
}

void Optimizer::set(const std::string& hyperparameter, double value) {
  const std::size_t i = index_of(rule_, hyperparameter);
  const Hyperparameter& known = rule_.hyperparameters[i];
  if (!(known.low <= value && value < known.high))
    fail_everywhere(ErrorKind::usage, "{}: {} = {} is out of range; expected {} <= {} < {}",
                    rule_.title, hyperparameter, value, known.low, hyperparameter, known.high);
  hyperparameters_[i] = value;
}

std::vector<std::string> Optimizer::hyperparameters() const {
  std::vector<std::string> names;
  for (const Hyperparameter& parameter : rule_.hyperparameters) names.push_back(parameter.name);
  return names;
}

void Optimizer::add_hook(std::shared_ptr<OptimizerHook> hook) {
  hooks_.push_back(std::move(hook));
}

std::vector<std::string> Optimizer::hook_names() const {
  std::vector<std::string> names;
  for (const auto& hook : hooks_) names.push_back(hook->name());
  return names;
}

Module& Optimizer::model() const {
  TASUKI_CHECK(model_ != nullptr, "the optimizer has no model yet; call setup(model) first");
  return *model_;
}

ParameterArena& Optimizer::arena() const {
  TASUKI_CHECK(arena_ != nullptr, "the optimizer has no model yet; call setup(model) first");
  return *arena_;
}

void Optimizer::setup(Module& model) {
  model_ = &model;
  t_ = 0;
  learning_rate_.reset();
  arena_.reset();
  share_first_shapes();
  build_arena();
}

void Optimizer::update(const Step& step) {
  TASUKI_CHECK(0 <= step.examples && step.examples <= step.global_examples,
               "{} examples of a global batch of {}", step.examples, step.global_examples);
  if (step.global_examples == 0) return;
  prepare(step);
  perform(step);
  complete();
}

void Optimizer::join(StepBlock& block) {
  TASUKI_CHECK(block_ == nullptr, "an optimizer joins one step's block only");
  block_ = &block;
  factors_ = block.reserve(5, DType::float32);
}

bool Optimizer::prepare(const Step& step) {
  TASUKI_CHECK(0 <= step.examples && step.examples <= step.global_examples,
               "{} examples of a global batch of {}", step.examples, step.global_examples);
  follow_shapes();
  const bool model_changed = !arena().matches(*model_);
  const bool is_alike = communicator_ ? announce_step(step, model_changed) : step.may_be_recorded;
  if (model_changed) follow_changed_model();
  if (block_ == nullptr) return is_alike;
  const RuleFactors factors = rule_.factors(hyperparameters_, t_ + 1);
  const std::span<float> fields = block_->host<float>(factors_);
  fields[0] = static_cast<float>(factors.rate);
  std::ranges::transform(factors.constants, fields.begin() + 1,
                         [](double constant) { return static_cast<float>(constant); });
  return is_alike;
}

void Optimizer::complete() {
  ++t_;
  if (rule_.learning_rate) learning_rate_ = rule_.learning_rate(hyperparameters_, t_);
}

void Optimizer::perform(const Step& step) {
  compute_gradients(step);
  finish_update(step.global_examples,
                [](const UpdateStep& update) { backend(update.device).update(update); });
}

std::string Optimizer::why_not_recorded() const {
  for (const auto& hook : hooks_)
    if (!hook->can_be_recorded()) return hook->name() + " computes on the host";
  if (communicator_ && communicator_->size() > 1 && !communicator_->queues_exchanges())
    return fmt::format("communicator {} exchanges gradients by way of the host",
                       communicator_->name());
  return "";
}

void Optimizer::keep_rounded_weights(DType type) {
  if (type == rounded_type_) return;
  rounded_type_ = type;
  if (!arena_) return;
  if (type == DType::float32)
    arena_->forget_rounded();
  else
    arena_->keep_rounded(type);
  ++arenas_made_;  // what was recorded reads other weights
}

void Optimizer::scale_losses(const LossScaler::Settings& settings) {
  loss_scaler_.emplace(arena().values().device(), settings);
}

void Optimizer::update_in_parts(const StepInParts& step) {
  if (step.global_examples == 0) return;
  TASUKI_CHECK(arena().matches(*model_),
               "the model's parameters changed; a step in parts needs those of setup()");
  TASUKI_CHECK(arena().unshaped().empty(),
               "parameter {} has no shape yet; a step in parts needs it",
               arena().unshaped().front().path);
  if (communicator_) announce_step({}, false);
  step.gradients();
  finish_update(step.global_examples, step.apply);
  complete();
}

// A pass in which parameters got their shape is done again: they are in the arena now, and have
// rank 0's values.
Variable Optimizer::forward(const Step& step) {
  while (true) {
    const bool may_change = !arena_->unshaped().empty();
    // What a forward pass moves besides.
    const std::uint64_t random_calls_before = random_calls();
    std::vector<Tensor> statistics;
    if (may_change)
      for (const Module::NamedBuffer& buffer : model_->buffers())
        statistics.push_back(buffer.tensor->clone());

    Variable loss;
    if (step.examples > 0) loss = step.loss();
    if (!may_change || !share_shapes(arena_->unshaped())) return loss;
    random_calls() = random_calls_before;
    const std::vector<Module::NamedBuffer> buffers = model_->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor->copy_from(statistics[i]);
    build_arena();
  }
}

void Optimizer::follow_shapes() {
  if (!arena().unshaped().empty() && share_shapes(arena_->unshaped())) build_arena();
}

void Optimizer::compute_gradients(const Step& step) {
  const Variable loss = forward(step);
  check_graph(loss);
  model_->clear_grads();
  if (step.examples > 0) {
    TASUKI_CHECK(loss.defined(), "the loss of a step is undefined; return it from Step::loss");
    TASUKI_CHECK(arena_->matches(*model_),
                 "the model's parameters changed during its forward pass; add layers before");
    // From the mean over the local batch to sums over examples, so that ranks add up.
    if (loss_scaler_)
      loss.backward(loss_scaler_->seed(static_cast<double>(step.examples)));
    else
      loss.backward(static_cast<float>(step.examples));
  }
  for (const ParameterArena::Entry& entry : arena_->entries()) entry.parameter->fill_missing_grad();
}

void Optimizer::finish_update(std::int64_t global_examples, const Apply& apply) {
  if (communicator_ && communicator_->size() > 1) exchange_gradients(global_examples);
  if (loss_scaler_) loss_scaler_->unscale(arena_->gradients());
  GradientInFlight gradient{*arena_, 1 / static_cast<double>(global_examples)};
  for (const auto& hook : hooks_) hook->apply(gradient);

  const RuleFactors factors = rule_.factors(hyperparameters_, t_ + 1);
  UpdateStep update;
  update.device = arena_->values().device();
  update.rule = rule_.kernel;
  update.parameter = arena_->values().data<float>();
  update.gradient = arena_->gradients().data<float>();
  for (std::size_t i = 0; i < states_.size(); ++i)
    update.state[i] = states_[i].values.data<float>();
  update.count = arena_->count();
  update.gradient_scale = static_cast<float>(gradient.scale);
  update.weight_decay = static_cast<float>(gradient.decay);
  update.rate = static_cast<float>(factors.rate);
  std::transform(factors.constants.begin(), factors.constants.end(), update.constant,
                 [](double constant) { return static_cast<float>(constant); });
  if (block_ != nullptr) update.device_factors = block_->on_device(factors_).data<float>();
  if (loss_scaler_) update.skip = loss_scaler_->skip();
  if (const Tensor& rounded = arena_->rounded()) {
    update.rounded = rounded.raw();
    update.rounded_type = rounded.dtype();
  }
  apply(update);
  if (loss_scaler_) loss_scaler_->adjust();
}

void Optimizer::check_model() const {
  if (model_->all_parameters().empty())
    fail_everywhere(ErrorKind::internal,
                    "the optimizer's model has no parameters: register its layers, add(\"name\", "
                    "layer), in the constructor of the module that has them as members");
  const auto check_values = [this] {
    for (const auto& [path, parameter] : model_->parameters())
      if (!parameter->has_values())
        fail(ErrorKind::internal,
             "parameter {} ({}) has no values yet: call the model's initialize(seed), or load a "
             "file, before the optimizer's setup; where zeros are meant, call the parameter's "
             "value_changed()",
             path, parameter->shape_text());
    return Bytes{};
  };
  // The other ranks take rank 0's.
  if (communicator_)
    run_on_root(*communicator_, 0, check_values);
  else
    check_values();
}

void Optimizer::check_graph(const Variable& loss) {
  if (std::exchange(graph_is_checked_, true)) return;
  for (const Parameter* parameter : parameters_below(loss)) {
    if (std::ranges::count(arena_->entries(), parameter, &ParameterArena::Entry::parameter))
      continue;
    if (!parameter->has_values())
      fail_everywhere(ErrorKind::internal,
                      "the loss depends on {} that the model does not have and that has no values: "
                      "register its layer, add(\"name\", layer), in the constructor of the module "
                      "that has it as a member; of a frozen layer whose zeros are meant, call the "
                      "parameter's value_changed()",
                      text_of(*parameter));
    if (!parameter->has_optimizer() && (!communicator_ || communicator_->rank() == 0))
      log_warning(
          "the loss depends on {} that no optimizer updates: its layer is not registered, "
          "add(\"name\", layer), in the model",
          text_of(*parameter));
  }
}

void Optimizer::build_arena() {
  if (communicator_) check_same_everywhere(true);
  check_model();
  // The old arena lives until its values and states have moved.
  auto arena = std::make_unique<ParameterArena>(*model_, communicator_);
  std::vector<StateArray> states;
  for (const std::string& name : rule_.states)
    states.push_back(
        {name, Tensor::zeros(arena->values().shape(), DType::float32, arena->values().device())});
  if (arena_) {
    for (const ParameterArena::Entry& entry : arena->entries()) {
      const auto old = std::find_if(
          arena_->entries().begin(), arena_->entries().end(), [&](const auto& candidate) {
            return candidate.path == entry.path && candidate.count == entry.count;
          });
      if (old == arena_->entries().end()) continue;
      for (std::size_t i = 0; i < states.size(); ++i)
        ParameterArena::part(states[i].values, entry)
            .copy_from(ParameterArena::part(states_[i].values, *old));
    }
  }
  arena_ = std::move(arena);
  ++arenas_made_;
  graph_is_checked_ = false;
  states_ = std::move(states);
  if (communicator_) {
    communicator_->bcast_data(arena_->values());
    for (const Module::NamedBuffer& buffer : model_->buffers())
      communicator_->bcast_data(*buffer.tensor);
  }
  if (rounded_type_ != DType::float32) arena_->keep_rounded(rounded_type_);
}

std::unique_ptr<Optimizer> create_optimizer(const std::string& name) {
  std::string known;
  for (const OptimizerRule& rule : optimizer_rules()) {
    if (rule.name == name) return std::make_unique<Optimizer>(rule);
    known += (known.empty() ? "" : ", ") + rule.name;
  }
  fail_everywhere(ErrorKind::usage, "unknown optimizer \"{}\"; known ones: {}", name, known);
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const OptimizerRule& rule : optimizer_rules()) made.push_back(rule.name);
    return made;
  }();
  return names;
}

}  // namespace tasuki
