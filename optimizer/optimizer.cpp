#include "tasuki/optimizer/optimizer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/nn/random.hpp"
#include "tasuki/optimizer/update_plan.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

// For a parameter that belongs to no model and so has no path.
std::string text_of(const Parameter& parameter) {
  const std::string layer = parameter.layer();
  return fmt::format("a parameter {} ({}){}", parameter.name(), parameter.shape_text(),
                     layer.empty() ? "" : " of a layer " + layer);
}

}  // namespace

Optimizer::Optimizer(std::shared_ptr<const UpdateRule> rule)
    : rule_(std::move(rule)),
      values_(rule_->name(), rule_->hyperparameters()),
      plan_(std::make_unique<UpdatePlan>(rule_, values_, t_)),
      counted_([this] {
        ++t_;
        learning_rate_ = rule_->learning_rate(values_, t_);
      }) {}

Optimizer::~Optimizer() = default;

void Optimizer::set_t(std::int64_t t) {
  TASUKI_CHECK(t >= 0, "the number of updates done cannot be {}", t);
  t_ = t;
}

void Optimizer::add_hook(std::shared_ptr<OptimizerHook> hook) {
  plan_->add_hook(std::move(hook));
  plan_changed();
}

void Optimizer::add_group(Group group) {
  plan_->add_group(std::move(group));
  plan_changed();
}

const std::vector<std::shared_ptr<OptimizerHook>>& Optimizer::hooks() const {
  return plan_->hooks();
}

const std::vector<Optimizer::Group>& Optimizer::groups() const {
  return plan_->groups();
}

void Optimizer::plan_changed() {
  if (arena_) plan_->arrange(*arena_);
  revision_.advance();
}

Module& Optimizer::model() const {
  TASUKI_CHECK(model_ != nullptr, "the optimizer has no model yet; call setup(model) first");
  return *model_;
}

const ParameterArena& Optimizer::arena() const {
  TASUKI_CHECK(arena_ != nullptr, "the optimizer has no model yet; call setup(model) first");
  return *arena_;
}

void Optimizer::setup(Module& model, std::size_t size_of_model) {
  for (const Parameter* parameter : model.unregistered_parameters(size_of_model))
    if (!parameter->has_values())
      fail_everywhere(ErrorKind::internal,
                      "{} is in a member of the model that is not registered: add(\"name\", layer) "
                      "in the constructor of the module that has it; a layer that is not to be "
                      "trained with the model is held by pointer",
                      text_of(*parameter));
  model_ = &model;
  for (const std::string& pattern : frozen_.patterns()) check_pattern(pattern);
  t_ = 0;
  learning_rate_.reset();
  arena_.reset();
  frozen_states_.clear();
  share_first_shapes();
  build_arena();
}

void Optimizer::freeze(const std::string& pattern) {
  check_pattern(pattern);
  frozen_.freeze(pattern);
}

void Optimizer::unfreeze(const std::string& pattern) {
  check_pattern(pattern);
  frozen_.unfreeze(pattern);
}

void Optimizer::check_pattern(const std::string& pattern) const {
  if (model_ == nullptr) return;
  const std::vector<Module::NamedParameter> all = model_->all_parameters();
  if (std::ranges::any_of(all, [&](const auto& named) { return matches(pattern, named.path); }))
    return;
  fail_everywhere(ErrorKind::usage,
                  "no parameter's path matches \"{}\" (* stands for any "
                  "characters but /, ** for any); the first one is {}",
                  pattern, all.empty() ? "missing" : all.front().path);
}

void Optimizer::freeze_only(const FrozenPaths& frozen) {
  frozen_ = frozen;
  if (!arena().freezes(frozen_)) build_arena();
  frozen_states_.clear();
}

Tensor Optimizer::state(const Parameter& parameter, const std::string& name) const {
  const std::vector<std::string> known = state_names();
  const auto found = std::ranges::find(known, name);
  if (found == known.end())
    fail_everywhere(ErrorKind::usage, "{} has no state \"{}\"; it has {}", rule_->name(), name,
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  const auto i = static_cast<std::size_t>(found - known.begin());
  const auto find_in = [&](const std::vector<ParameterArena::Entry>& entries) {
    const auto entry = std::ranges::find(entries, &parameter, &ParameterArena::Entry::parameter);
    return entry == entries.end() ? nullptr : &*entry;
  };
  if (const auto* entry = find_in(arena().entries()))
    return ParameterArena::part(states_[i], *entry).reshape(parameter.shape());
  const auto* const frozen = find_in(arena().frozen());
  TASUKI_CHECK(frozen != nullptr, "parameter {} is not the optimizer's", parameter.name());
  std::vector<Tensor>& kept = frozen_states_[frozen->path];
  while (kept.size() < known.size())
    kept.push_back(Tensor::zeros({frozen->count}, DType::float32, arena_->values().device()));
  return kept[i].reshape(parameter.shape());
}

bool Optimizer::has_states(const Parameter& parameter) const {
  const auto& frozen = arena().frozen();
  const auto entry = std::ranges::find(frozen, &parameter, &ParameterArena::Entry::parameter);
  return entry == frozen.end() || frozen_states_.contains(entry->path);
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& state : states_) bytes += state.bytes();
  for (const auto& [path, kept] : frozen_states_)
    for (const Tensor& state : kept) bytes += state.bytes();
  return bytes;
}

void Optimizer::compute_in(DType type) {
  if (type == compute_type_) return;
  compute_type_ = type;
  revision_.advance();
  if (!arena_) return;
  if (type == DType::float32)
    arena_->forget_rounded();
  else
    arena_->keep_rounded(type);
}

void Optimizer::scale_losses(const LossScaler::Settings& settings) {
  loss_scaler_.emplace(arena().values().device(), settings);
  revision_.advance();
}

// --- one step ---

Tensor Optimizer::update(const std::function<Variable()>& loss, std::int64_t examples) {
  StepScope step;
  const Variable found = forward(loss, examples);
  backward(found, examples);
  update(exchange());
  step.succeeded();
  return found.value();
}

bool Optimizer::has_met() const {
  return met_ && met_->step == StepScope::number();
}

Optimizer::Agreement Optimizer::meet(std::int64_t examples, int level) {
  follow_shapes();
  const bool model_changed = !arena().matches(*model_) || !arena_->freezes(frozen_);
  Agreement agreement{examples, level};
  if (has_peers() && !arena_->values().device().is_cpu())
    agreement = send_ahead(examples, level, model_changed);
  if (model_changed) follow_changed_model();
  met_ = {StepScope::number(), agreement};
  plan_->expect(agreement.global_examples);
  return agreement;
}

// A pass in which parameters got their shape is repeated: they are in the arena now, and have rank
// 0's values.
Variable Optimizer::forward(const std::function<Variable()>& loss, std::int64_t examples) {
  TASUKI_CHECK(examples >= 0, "a step of {} examples", examples);
  if (!has_met()) meet(examples);
  while (true) {
    const bool may_change = !arena_->unshaped().empty();
    // What a forward pass changes besides.
    const std::uint64_t random_calls_before = random_calls();
    std::vector<Tensor> statistics;
    if (may_change)
      for (const Module::NamedBuffer& buffer : model_->buffers())
        statistics.push_back(buffer.tensor->clone());

    Variable found;
    if (examples > 0) found = loss();
    if (!may_change || !share_shapes(arena_->unshaped())) return found;
    set_random_calls(random_calls_before);
    const std::vector<Module::NamedBuffer> buffers = model_->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor->copy_from(statistics[i]);
    build_arena();
  }
}

void Optimizer::follow_shapes() {
  if (!arena().unshaped().empty() && share_shapes(arena_->unshaped())) build_arena();
}

void Optimizer::backward(const Variable& loss, std::int64_t examples) {
  check_graph(loss);
  if (gradients_of_ != StepScope::number()) {
    model_->clear_grads();
    examples_ = 0;
    gradients_of_ = StepScope::number();
  }
  if (examples == 0) return;
  TASUKI_CHECK(loss.defined(),
               "the loss of {} examples is undefined; return it from the loss "
               "function",
               examples);
  TASUKI_CHECK(arena_->matches(*model_),
               "the model's parameters changed during its forward pass; add layers before");
  // From the mean over the local batch to sums over examples, so that ranks add up.
  if (loss_scaler_)
    loss.backward(loss_scaler_->seed(static_cast<double>(examples)));
  else
    loss.backward(static_cast<float>(examples));
  examples_ += examples;
}

std::int64_t Optimizer::exchange(std::optional<std::int64_t> global_examples) {
  TASUKI_CHECK(gradients_of_ == StepScope::number(), "exchange() comes after backward()");
  TASUKI_CHECK(!global_examples || examples_ <= *global_examples,
               "{} examples of a global batch of {}", examples_, *global_examples);
  for (const ParameterArena::Entry& entry : arena_->entries()) entry.parameter->fill_missing_grad();
  return has_peers() ? exchange_over_ranks(global_examples) : global_examples.value_or(examples_);
}

void Optimizer::update(std::int64_t global_examples, const SpreadUpdate& spread) {
  TASUKI_CHECK(arena_ != nullptr && gradients_of_ == StepScope::number(),
               "update() comes after backward()");
  gradients_of_.reset();
  if (!StepScope::is_open()) met_.reset();
  if (global_examples == 0) return;
  revision_.use();
  if (loss_scaler_) loss_scaler_->unscale(arena_->gradients());
  plan_->run(*arena_, states_, loss_scaler_ ? loss_scaler_->skip() : nullptr, global_examples,
             spread);
  if (loss_scaler_) loss_scaler_->adjust();
  counted_.request();
}

// --- models and arenas ---

void Optimizer::check_model() const {
  if (model_->all_parameters().empty())
    fail_everywhere(ErrorKind::internal,
                    "the optimizer's model has no parameters: register its layers, add(\"name\", "
                    "layer), in the constructor of the module that has them as members");
  if (std::ranges::all_of(model_->all_parameters(),
                          [this](const auto& named) { return frozen_.has(named.path); }))
    fail_everywhere(ErrorKind::usage, "all parameters of the optimizer's model are frozen");
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
  plan_->check(model_->device());
  // Where others are frozen than before, ranks have the same values already, and running statistics
  // are each rank's.
  const bool has_same_parameters = all_ranks(arena_ && arena_->matches(*model_));
  // The old arena lives until its values and states have moved.
  auto arena = std::make_unique<ParameterArena>(*model_, communicator_, frozen_);
  move_states(*arena);
  arena_ = std::move(arena);
  plan_changed();
  graph_is_checked_ = false;
  if (communicator_ && !has_same_parameters) {
    communicator_->bcast_data(arena_->values());
    for (const Module::NamedBuffer& buffer : model_->buffers())
      communicator_->bcast_data(*buffer.tensor);
  }
  if (compute_type_ != DType::float32) arena_->keep_rounded(compute_type_);
}

// By path: out of the old arena, or out of what was kept while the parameter was frozen.
void Optimizer::move_states(const ParameterArena& arena) {
  using Entry = ParameterArena::Entry;
  const Tensor& gradients = arena.gradients();
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < state_names().size(); ++i)
    states.push_back(Tensor::zeros(gradients.shape(), DType::float32, gradients.device()));
  const auto find_old = [this](const Entry& entry) -> const Entry* {
    if (!arena_) return nullptr;
    const auto old = std::ranges::find_if(arena_->entries(), [&](const Entry& candidate) {
      return candidate.path == entry.path && candidate.count == entry.count;
    });
    return old == arena_->entries().end() ? nullptr : &*old;
  };
  for (const Entry& entry : arena.frozen())
    if (const Entry* old = find_old(entry)) {
      std::vector<Tensor>& kept = frozen_states_[entry.path];
      kept.clear();
      for (const Tensor& state : states_) kept.push_back(ParameterArena::part(state, *old).clone());
    }
  for (const Entry& entry : arena.entries()) {
    const Entry* const old = find_old(entry);
    const auto kept = frozen_states_.extract(entry.path);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Tensor to = ParameterArena::part(states[i], entry);
      if (old != nullptr)
        to.copy_from(ParameterArena::part(states_[i], *old));
      else if (!kept.empty() && kept.mapped()[i].count() == entry.count)
        to.copy_from(kept.mapped()[i]);
    }
  }
  states_ = std::move(states);
}

std::unique_ptr<Optimizer> create_optimizer(const std::string& key) {
  for (const NamedRule& each : update_rules())
    if (each.key == key) return std::make_unique<Optimizer>(each.rule);
  fail_everywhere(ErrorKind::usage, "unknown optimizer \"{}\"; known ones: {}", key,
                  fmt::join(optimizer_names(), ", "));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const NamedRule& each : update_rules()) names.push_back(each.key);
  return names;
}

}  // namespace tasuki
