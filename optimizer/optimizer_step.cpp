// One step of an optimizer: the agreement before it, the passes, the exchange, the update.
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "communicator/leave.hpp"
#include "nn/backward.hpp"
#include "nn/random.hpp"
#include "optimizer/divided_weights.hpp"
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

// --- the agreement before it ---

StepExchange::Agreement Optimizer::agree_on_step(std::int64_t examples, int readiness,
                                                 bool is_further_batch) {
  follow_shapes();
  if (!is_further_batch) guard_.expect(examples);
  const bool is_changed = !arena().matches(*trained_.model) || !arena().freezes(frozen_);
  const StepExchange::Status of_all = exchange_.combine({examples, readiness, is_changed});
  if (of_all.model_changed && !is_changed) {
    flush();  // as the others do, before they compare
    check_same_everywhere(false);
  }
  if (is_changed) {
    exchange_.announce_changed_model();
    build_arena();
  } else if (weights_.are_shared() && plan_->hook_of_arrays() != nullptr) {
    build_arena();
  }
  const StepExchange::Agreement agreement = exchange_.record_agreement(of_all, is_further_batch);
  plan_->expect(exchange_.expect(agreement.global_examples));
  return agreement;
}

// --- passes ---

void Optimizer::begin_shard(std::int64_t shard) {
  if (!sharded_.is_on() || !trained_.arena)
    fail(ErrorKind::usage,
         "begin_shard() comes after set_shards(), which divides steps, and setup()");
  sharded_.begin_shard(shard);
}

Variable Optimizer::forward(const std::function<Variable()>& loss, std::int64_t examples,
                            bool always) {
  TASUKI_CHECK(examples >= 0, "a step of {} examples", examples);
  const int before = exchange_.batches();
  if (exchange_.must_agree_before_forward()) agree_on_step(examples, 0, before > 0);
  guard_.begin_step();
  exchange_.prepare();
  try {
    return run_forward(loss, always || exchange_.takes_part(examples));
  } catch (...) {
    give_up_pass();
    throw;
  }
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
    if (divided_) divided_->begin_pass(DividedWeights::Pass::training);
    if (calls_it)
      found = loss();
    else
      end_weights_pass();  // before this rank waits for others, who need its weights
    if (!may_change || !trained_.share_shapes(trained_.arena->unshaped())) return found;
    set_random_calls(random_calls_before);
    const std::vector<Module::NamedBuffer> buffers = trained_.model->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].tensor->copy_from(statistics[i]);
    build_arena();
  }
}

bool Optimizer::begin_backward(const Variable& loss, std::int64_t examples) {
  note_moment(StepClock::Moment::backward);
  if (!std::exchange(graph_is_checked_, true)) trained_.check_graph(loss);
  if (sharded_.is_on())
    sharded_.begin_pass(0, examples);
  else if (!exchange_.has_gradients() || exchange_.exchanges_each_pass())
    trained_.model->clear_grads();
  exchange_.add_batch(examples);
  guard_.note_loss(examples > 0 && loss.defined() ? loss.value() : Tensor(),
                   exchange_.batches() > 1);
  // Without examples, a loss is defined where its pass is one of several ranks.
  if (!loss.defined() && !exchange_.takes_part(examples)) return false;
  TASUKI_CHECK(loss.defined(),
               "the loss of {} examples is undefined; return it from the loss "
               "function",
               examples);
  TASUKI_CHECK(trained_.arena->matches(*trained_.model),
               "the model's parameters changed during its forward pass; add layers before");
  return true;
}

std::function<bool(const Parameter&)> Optimizer::leaves_out(
    const std::vector<ParameterArena::Entry>& entries) {
  std::unordered_set<const Parameter*> own;
  for (const ParameterArena::Entry& entry : entries) own.insert(entry.parameter);
  return [own = std::move(own)](const Parameter& parameter) {
    return parameter.has_optimizer() && !own.contains(&parameter);
  };
}

void Optimizer::run_backward(const Variable& loss, std::int64_t examples) {
  if (divided_) divided_->begin_backward();
  Variable::GradientReady ready;
  if (exchange_.has_begun())
    ready = [this](Parameter& parameter) {
      sharded_.finish_part(parameter);
      exchange_.ready(parameter);
    };
  tasuki::run_backward(
      loss, {.seed = guard_.seed(loss.value(), examples),
             .ready = ready,
             // Advances the exchange of gradients, of the step before or of this one.
             .between = [this] { exchange_.advance(); },
             .leaves_out = leaves_out(trained_.arena->entries()),
             .late = sharded_.is_on() && examples > 0 ? sharded_.late_products(0) : nullptr,
             .keeps_graph = keeps_graphs_});
}

void Optimizer::backward(const Variable& loss, std::int64_t examples) {
  const bool has_pass = begin_backward(loss, examples);
  try {
    if (!exchange_.exchanges_each_pass()) {
      if (has_pass) run_backward(loss, examples);
      return end_weights_pass();
    }
    exchange_.begin_pass();
    if (has_pass) run_backward(loss, examples);
    end_weights_pass();
    if (exchange_.finish_pass()) check_same_everywhere(false);
  } catch (...) {
    give_up_pass();
    throw;
  }
}

void Optimizer::backward_in(std::size_t thread, const Variable& loss, std::int64_t examples) {
  sharded_.begin_pass(thread, examples);
  if (examples == 0) return;
  TASUKI_CHECK(loss.defined(), "the loss of {} examples is undefined", examples);
  if (guard_.skips_non_finite()) sharded_.note_loss(thread, loss.value());
  tasuki::run_backward(loss, {.seed = guard_.seed(loss.value(), examples),
                              .leaves_out = leaves_out(sharded_.entries_of(thread)),
                              .late = sharded_.late_products(thread),
                              .keeps_graph = keeps_graphs_});
}

std::int64_t Optimizer::backward_and_exchange(const Variable& loss, std::int64_t examples,
                                              std::optional<std::int64_t> global_examples) {
  try {
    const bool has_pass = begin_backward(loss, examples);
    if (!exchange_.may_begin_early() || (sharded_.is_on() && !sharded_.is_last_pass())) {
      if (has_pass) run_backward(loss, examples);
      end_weights_pass();
      return exchange(global_examples);
    }
    if (sharded_.is_on()) sharded_.begin_parts();
    exchange_.begin(global_examples);
    if (has_pass) run_backward(loss, examples);
    end_weights_pass();
    if (sharded_.is_on()) sharded_.finish();
    return finish_exchange();
  } catch (...) {
    give_up_pass();
    throw;
  }
}

// --- exchange ---

std::int64_t Optimizer::exchange(std::optional<std::int64_t> global_examples) {
  TASUKI_CHECK(exchange_.has_gradients(), "exchange() comes after backward()");
  if (exchange_.must_agree_before_begin()) agree_on_step(exchange_.examples());
  if (sharded_.is_on()) {
    for (const Tensor& loss : sharded_.losses()) guard_.note_loss(loss, true);
    sharded_.finish();
  }
  exchange_.begin(global_examples, /*after_passes=*/exchange_.exchanges_each_pass());
  return finish_exchange();
}

std::int64_t Optimizer::finish_exchange() {
  if (!exchange_.exchanges_each_pass())
    for (const ParameterArena::Entry& entry : trained_.arena->entries())
      entry.parameter->fill_missing_grad();
  const StepExchange::Sums sums = exchange_.finish();
  if (sums.model_changed) check_same_everywhere(false);
  guard_.search();
  sharded_.finish_statistics();
  return sums.examples;
}

// --- update ---

void Optimizer::update(std::int64_t global_examples, const SpreadUpdate& spread) {
  TASUKI_CHECK(trained_.arena != nullptr && exchange_.has_gradients(),
               "update() comes after backward()");
  note_moment(StepClock::Moment::update);
  exchange_.end_step();
  guard_.end_step();
  apply(global_examples, spread);
}

void Optimizer::apply(std::int64_t global_examples, const SpreadUpdate& spread) {
  if (global_examples == 0) return;
  trained_.revision.use();
  if (guard_.leaves_out_on_host()) return counted_.request();
  if (divided_) divided_->settle();
  trained_.arena->begin_update();
  guard_.unscale();
  // Sharers may have published changes in what this rank is about to update.
  if (states_.are_sharded()) trained_.arena->wait_for_sharers();
  plan_->run(*trained_.arena, states_.owners(), states_.values(), guard_.skip(), global_examples,
             spread ? spread : sharded_.spread());
  if (states_.are_sharded() && !divided_) {
    note_moment(StepClock::Moment::exchange);
    states_.owners().share(trained_.arena->shared_values(), weights_.are_by_node());
    trained_.arena->wait_for_sharers();
    trained_.arena->round_values();
  }
  trained_.arena->end_update();
  guard_.adjust_scale();
  counted_.request();
}

// Without waiting: the exchange goes on meanwhile, and ranks with examples need both.
void Optimizer::end_weights_pass() {
  if (divided_) divided_->end_pass();
}

void Optimizer::evaluating(const std::function<void()>& pass) {
  if (!divided_) return pass();
  try {
    divided_->begin_pass(DividedWeights::Pass::evaluation);
    pass();
    divided_->end_pass();
    divided_->settle();
  } catch (...) {
    give_up_pass();
    throw;
  }
}

void Optimizer::flush() {
  if (!exchange_.is_late()) return;
  StepScope step;
  if (const std::optional<StepExchange::Sums> sums = exchange_.flush()) {
    if (sums->model_changed) check_same_everywhere(false);
    plan_->expect(sums->examples);
    apply(sums->examples, {});
  }
  step.succeeded();
}

// Other threads may still compute shards; they end the step with give_up_step().
void Optimizer::give_up_pass() {
  if (sharded_.threads() == 1) sharded_.give_up();
  // Other ranks come as far as this one only if it does its part of what both have begun: first
  // exchanges, without which they may not come to the gathers. Then they are told.
  exchange_.give_up();
  if (divided_) divided_->give_up();
  if (communicator() != nullptr) leave_after_error(*communicator());
}

void Optimizer::give_up_step() {
  sharded_.give_up();
  exchange_.give_up();
  exchange_.end_step();
  guard_.end_step();
}

}  // namespace tasuki
