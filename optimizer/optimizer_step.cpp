// One step of an optimizer: the message ahead of it, the passes, the update.
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/stop_request.hpp"
#include "nn/backward.hpp"
#include "nn/random.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/update_plan.hpp"
#include "tensor/clock_scope.hpp"

namespace tasuki {

Tensor Optimizer::update(const std::function<Variable()>& loss, std::int64_t examples) {
  StepScope step;
  const Variable found = forward(loss, examples);
  update(backward_and_exchange(found, examples));
  step.succeeded();
  return found.value();
}

bool Optimizer::must_tell_ahead() const {
  if (!trained_.has_peers()) return false;
  return !trained_.arena->values().device().is_cpu() || exchange_->is_late() ||
         trained_.model->communicates();
}

bool Optimizer::has_met() const {
  return met_ && met_->step == StepScope::number();
}

Optimizer::Agreement Optimizer::meet(std::int64_t examples, int level, bool adds) {
  follow_shapes();
  const bool model_changed = !arena().matches(*trained_.model) || !trained_.arena->freezes(frozen_);
  // Other ranks may not have this change, so all decide by the model that they had before.
  if (!model_changed) tells_ahead_ = must_tell_ahead();
  Agreement agreement{examples, level};
  if (tells_ahead_) agreement = send_ahead(examples, level, model_changed);
  if (model_changed)
    follow_changed_model();
  else if (weights_.are_shared() && plan_->hook_of_arrays() != nullptr)
    build_arena();
  const Met before = adds && has_met() ? *met_ : Met{};
  const std::int64_t examples_of_batch = agreement.global_examples;
  agreement.global_examples += before.agreement.global_examples;
  met_ = {StepScope::number(), before.batches + 1, examples_of_batch, agreement};
  plan_->expect(exchange_ ? exchange_->expect(agreement.global_examples)
                          : agreement.global_examples);
  return agreement;
}

Optimizer::Agreement Optimizer::send_ahead(std::int64_t own_examples, int own_level,
                                           bool model_changed) {
  enum Place : std::size_t { changed, stop, examples, level_0, level_1, level_2 };
  std::array<std::int64_t, 6> told{};
  told[changed] = model_changed ? 1 : 0;
  told[stop] = stop_requested() ? 1 : 0;
  told[examples] = own_examples;
  // The sum is the number of ranks at this level or below.
  for (int level = 0; level < 3; ++level)
    told[level_0 + static_cast<std::size_t>(level)] = own_level <= level ? 1 : 0;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(told), {std::ssize(told)});
  trained_.communicator->allreduce(sum);
  const auto of_all = sum.span<std::int64_t>();
  if (!model_changed && of_all[changed] != 0) {
    flush();  // as the others do, before they compare
    check_same_everywhere(false);
  }
  asked_to_stop_ = of_all[stop] != 0;
  Agreement agreement{of_all[examples], 3};
  for (int level = 2; level >= 0; --level)
    if (of_all[level_0 + static_cast<std::size_t>(level)] != 0) agreement.least_level = level;
  return agreement;
}

Variable Optimizer::forward(const std::function<Variable()>& loss, std::int64_t examples,
                            bool always) {
  TASUKI_CHECK(examples >= 0, "a step of {} examples", examples);
  // Of later batches, too, ranks ask each other whether the layers have something to exchange.
  const int before = gradients_of_ == StepScope::number() ? batches_ : 0;
  if (!has_met() ||
      (before >= met_->batches && trained_.has_peers() && trained_.model->communicates()))
    meet(examples, 0, before > 0);
  guard_.begin_step();
  if (exchange_) exchange_->prepare();
  try {
    return run_forward(loss, always || takes_part(examples));
  } catch (...) {
    if (exchange_) exchange_->give_up();
    throw;
  }
}

bool Optimizer::takes_part(std::int64_t examples) const {
  if (examples > 0) return true;
  const bool has_none_anywhere = tells_ahead_ && has_met() && met_->examples_of_batch == 0;
  return trained_.model->communicates() && !has_none_anywhere;
}

// A pass in which parameters got their shape is repeated: they are in the arena now, and have rank
// 0's values.
Variable Optimizer::run_forward(const std::function<Variable()>& loss, bool calls_it) {
  while (true) {
    const bool may_change = !trained_.arena->unshaped().empty();
    // A forward pass also changes these; they are restored if it is repeated.
    const std::uint64_t random_calls_before = random_calls();
    std::vector<Tensor> statistics;
    if (may_change)
      for (const Module::NamedBuffer& buffer : trained_.model->buffers())
        statistics.push_back(buffer.tensor->clone());

    Variable found;
    if (calls_it) found = loss();
    if (!may_change || !trained_.share_shapes(trained_.arena->unshaped())) return found;
    set_random_calls(random_calls_before);
    const std::vector<Module::NamedBuffer> buffers = trained_.model->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor->copy_from(statistics[i]);
    build_arena();
  }
}

void Optimizer::backward(const Variable& loss, std::int64_t examples) {
  run_backward(loss, examples, {});
}

std::int64_t Optimizer::backward_and_exchange(const Variable& loss, std::int64_t examples,
                                              std::optional<std::int64_t> global_examples) {
  if (exchange_ == nullptr) {
    run_backward(loss, examples, {});
    return exchange(global_examples);
  }
  const auto ready = [&](Parameter& parameter) {
    if (!exchange_->has_begun()) begin_exchange(global_examples);
    exchange_->ready(parameter);
  };
  // On a GPU the message ahead of a step may rebuild arrays, which a backward pass cannot.
  const bool may_begin =
      (trained_.arena->gradients().device().is_cpu() || has_met()) && !exchanges_after_backward();
  try {
    run_backward(loss, examples, may_begin ? ready : Variable::GradientReady());
    return exchange(global_examples);
  } catch (...) {
    exchange_->give_up();
    throw;
  }
}

void Optimizer::run_backward(const Variable& loss, std::int64_t examples,
                             const Variable::GradientReady& ready) {
  note_moment(StepClock::Moment::backward);
  if (!std::exchange(graph_is_checked_, true)) trained_.check_graph(loss);
  if (gradients_of_ != StepScope::number()) {
    trained_.model->clear_grads();
    examples_ = 0;
    batches_ = 0;
    gradients_of_ = StepScope::number();
  }
  ++batches_;
  guard_.note_loss(examples > 0 && loss.defined() ? loss.value() : Tensor(), batches_ > 1);
  // Without examples, a loss is defined where its pass is one of several ranks.
  if (!loss.defined() && !takes_part(examples)) return;
  TASUKI_CHECK(loss.defined(),
               "the loss of {} examples is undefined; return it from the loss "
               "function",
               examples);
  TASUKI_CHECK(trained_.arena->matches(*trained_.model),
               "the model's parameters changed during its forward pass; add layers before");
  examples_ += examples;
  // Advances gradients that travel meanwhile: those of the step before, or ranges of this step's.
  const auto between = [this] {
    if (exchange_) exchange_->advance();
  };
  std::unordered_set<const Parameter*> own;
  for (const ParameterArena::Entry& entry : trained_.arena->entries()) own.insert(entry.parameter);
  tasuki::run_backward(loss, {.seed = guard_.seed(loss.value(), examples),
                              .ready = ready,
                              .between = between,
                              .leaves_out =
                                  [&own](const Parameter& parameter) {
                                    return parameter.has_optimizer() && !own.contains(&parameter);
                                  },
                              .keeps_graph = keeps_graphs_});
}

void Optimizer::update(std::int64_t global_examples, const SpreadUpdate& spread) {
  TASUKI_CHECK(trained_.arena != nullptr && gradients_of_ == StepScope::number(),
               "update() comes after backward()");
  note_moment(StepClock::Moment::update);
  gradients_of_.reset();
  guard_.end_step();
  if (!StepScope::is_open()) met_.reset();
  apply(global_examples, spread);
}

void Optimizer::apply(std::int64_t global_examples, const SpreadUpdate& spread) {
  if (global_examples == 0) return;
  trained_.revision.use();
  if (guard_.leaves_out_on_host()) return counted_.request();
  trained_.arena->begin_update();
  guard_.unscale();
  // Sharers may have published changes in what this rank is about to update.
  if (states_.are_sharded()) trained_.arena->wait_for_sharers();
  plan_->run(*trained_.arena, states_.owners(), states_.values(), guard_.skip(), global_examples,
             spread);
  if (states_.are_sharded()) {
    note_moment(StepClock::Moment::exchange);
    states_.owners().share(trained_.arena->shared_values(), trained_.arena->is_shared());
    trained_.arena->wait_for_sharers();
    trained_.arena->round_values();
  }
  trained_.arena->end_update();
  guard_.adjust_scale();
  counted_.request();
}

void Optimizer::flush() {
  if (!exchange_ || !exchange_->is_late()) return;
  StepScope step;
  if (const std::optional<GradientExchange::Sums> sums = exchange_->flush()) {
    const std::int64_t examples = read_notices(sums->examples);
    plan_->expect(examples);
    apply(examples, {});
  }
  step.succeeded();
}

}  // namespace tasuki
