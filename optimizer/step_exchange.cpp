#include "optimizer/step_exchange.hpp"

#include <array>

#include "core/log.hpp"
#include "core/stop_request.hpp"
#include "tensor/clock_scope.hpp"
#include "tensor/late.hpp"

namespace tasuki {
namespace {

// Of ParameterArena::examples_notice().
constexpr std::int64_t examples_unit = 4096;

}  // namespace

TransferTimes StepExchange::times() const {
  TransferTimes times = earlier_times_;
  if (way_) {
    times.transfer += way_->times().transfer;
    times.exposed += way_->times().exposed;
  }
  return times;
}

// --- ahead of a step ---

bool StepExchange::must_tell_ahead() const {
  if (!trained_.has_peers()) return false;
  return !trained_.is_on_cpu() || is_late() || trained_.model->communicates();
}

StepExchange::Told StepExchange::tell_ahead(const Told& own) {
  // Other ranks may not have a change, so all decide by the model that they had before.
  if (!own.model_changed) tells_ahead_ = must_tell_ahead();
  if (!tells_ahead_) return own;
  enum Place : std::size_t { changed, stop, examples, level_0, level_1, level_2 };
  std::array<std::int64_t, 6> told{};
  told[changed] = own.model_changed ? 1 : 0;
  told[stop] = stop_requested() ? 1 : 0;
  told[examples] = own.examples;
  // The sum is the number of ranks at this level or below.
  for (int level = 0; level < 3; ++level)
    told[level_0 + static_cast<std::size_t>(level)] = own.level <= level ? 1 : 0;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(told), {std::ssize(told)});
  trained_.communicator->allreduce(sum);
  const auto of_all = sum.span<std::int64_t>();
  asked_to_stop_ = of_all[stop] != 0;
  Told found{of_all[examples], 3, of_all[changed] != 0};
  for (int level = 2; level >= 0; --level)
    if (of_all[level_0 + static_cast<std::size_t>(level)] != 0) found.level = level;
  return found;
}

void StepExchange::tell_of_change() {
  if (!way_ || tells_ahead_) return;
  trained_.arena->notice().fill(1);
  way_->begin_without_gradients();
  way_->finish();
}

StepExchange::Agreement StepExchange::agree(const Told& of_all, bool adds) {
  const Met before = adds && has_met() ? *met_ : Met{};
  const Agreement agreement{before.agreement.global_examples + of_all.examples, of_all.level};
  met_ = {StepScope::number(), before.batches + 1, of_all.examples, agreement};
  return agreement;
}

std::int64_t StepExchange::expect(std::int64_t global_examples) {
  return way_ ? way_->expect(global_examples) : global_examples;
}

// Of later batches, too, ranks ask each other whether the layers have something to exchange.
bool StepExchange::must_agree_before_forward() const {
  if (!has_met()) return true;
  return batches() >= met_->batches && trained_.has_peers() && trained_.model->communicates();
}

bool StepExchange::must_agree_before_begin() const {
  return way_ && !trained_.is_on_cpu() && !has_met();
}

bool StepExchange::takes_part(std::int64_t examples) const {
  if (examples > 0) return true;
  const bool has_none_anywhere = tells_ahead_ && has_met() && met_->examples_of_batch == 0;
  return trained_.model->communicates() && !has_none_anywhere;
}

// --- the batches of a step ---

void StepExchange::add_batch(std::int64_t examples) {
  if (!has_gradients()) {
    examples_ = 0;
    batches_ = 0;
    gradients_of_ = StepScope::number();
  }
  examples_ += examples;
  ++batches_;
}

void StepExchange::end_step() {
  gradients_of_.reset();
  if (!StepScope::is_open()) met_.reset();
}

// --- the exchange of a step ---

void StepExchange::prepare() {
  if (way_) way_->prepare();
}

// On a GPU the message ahead of a step may rebuild arrays, which a backward pass cannot.
bool StepExchange::may_begin_early() const {
  return way_ && (trained_.is_on_cpu() || has_met()) && !travels_after_backward();
}

void StepExchange::begin(std::optional<std::int64_t> global_examples) {
  TASUKI_CHECK(!global_examples || examples_ <= *global_examples,
               "{} examples of a global batch of {}", examples_, *global_examples);
  if (!way_) {
    TASUKI_CHECK(!trained_.has_peers(),
                 "gradients cannot be exchanged: the arrays of the model could not be rebuilt");
    if (global_examples && examples_ != *global_examples)
      fail(ErrorKind::usage,
           "the batch has {} examples on all ranks, of which this rank has {}, but the optimizer "
           "knows of no other rank: give it a communicator, "
           "create_multi_node_optimizer(std::move(optimizer), communicator)",
           *global_examples, examples_);
    return;
  }
  if (trained_.is_on_cpu())
    write_notices(global_examples);
  else
    global_examples = examples_on_gpu(global_examples);
  guard_.begin_search();
  way_->begin({examples_, global_examples});
}

std::int64_t StepExchange::examples_on_gpu(std::optional<std::int64_t> global_examples) const {
  if (!global_examples && batches_ > met_->batches) {
    refuse_recording("a step has several batches whose examples on all ranks are not known");
    global_examples = trained_.sum_over_ranks(examples_);
  }
  if (!trained_.communicator->queues_exchanges())
    refuse_recording(fmt::format("communicator {} exchanges gradients by way of the host",
                                 trained_.communicator->name()));
  return global_examples.value_or(met_->agreement.global_examples);
}

void StepExchange::ready(Parameter& parameter) {
  if (way_) way_->ready(parameter);
}

void StepExchange::advance() {
  if (way_) way_->advance();
}

StepExchange::Sums StepExchange::finish() {
  if (!way_) return {examples_};
  note_moment(StepClock::Moment::exchange);
  const std::optional<GradientExchange::Sums> sums = way_->finish();
  if (!sums) return {};
  const Sums found = read_notices(sums->examples);
  way_->set_examples(found.examples);
  return found;
}

std::optional<StepExchange::Sums> StepExchange::flush() {
  if (!way_) return std::nullopt;
  const std::optional<GradientExchange::Sums> sums = way_->flush();
  return sums ? std::optional(read_notices(sums->examples)) : std::nullopt;
}

void StepExchange::give_up() {
  if (way_) way_->give_up();
}

void StepExchange::write_notices(std::optional<std::int64_t> global_examples) const {
  if (stop_requested()) trained_.arena->stop_notice().fill(1);
  if (global_examples) return;
  float* const notice = trained_.arena->examples_notice().data<float>();
  const std::int64_t units = examples_ / examples_unit;
  notice[0] = static_cast<float>(examples_ - units * examples_unit);
  notice[1] = static_cast<float>(units);
}

StepExchange::Sums StepExchange::read_notices(std::optional<std::int64_t> global_examples) {
  const ParameterArena& arena = *trained_.arena;
  Sums found;
  if (trained_.is_on_cpu()) {
    found.model_changed = arena.notice().item() != 0;
    asked_to_stop_ = arena.stop_notice().item() != 0;
    if (asked_to_stop_) arena.stop_notice().fill(0);
  }
  if (!global_examples) {
    const Tensor notice = arena.examples_notice();
    global_examples = static_cast<std::int64_t>(notice.data<float>()[0]) +
                      examples_unit * static_cast<std::int64_t>(notice.data<float>()[1]);
    notice.fill(0);
  }
  found.examples = *global_examples;
  return found;
}

// --- between steps ---

// Two exchanges of NCCL's at a time may block each other.
bool StepExchange::travels_after_backward() const {
  return !trained_.is_on_cpu() && trained_.model->communicates();
}

void StepExchange::follow_arena() {
  if (!trained_.has_peers()) return;
  guard_.check(settings_);
  ExchangeSettings settings = settings_;
  if (travels_after_backward()) {
    if (!settings.mode && settings.range_bytes == 0)
      settings.range_bytes = static_cast<std::int64_t>(trained_.arena->gradients().bytes());
    settings.mode = ExchangeMode::whole;
  }
  way_ = create_gradient_exchange(*trained_.arena, *trained_.communicator, second_communicator_,
                                  settings, states_.needed());
  tells_ahead_ = must_tell_ahead();
  if (trained_.communicator->rank() == 0 && way_->power_sgd() == nullptr)
    log_verbose("gradients are exchanged {}", way_->describe());
}

void StepExchange::leave_arena() {
  earlier_times_ = times();
  way_.reset();
}

void StepExchange::follow_settings() {
  if (way_) way_->leave();
  leave_arena();
  follow_arena();
}

void StepExchange::leave_communicator() {
  leave_arena();
  second_communicator_.reset();
}

}  // namespace tasuki
