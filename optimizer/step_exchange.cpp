#include "optimizer/step_exchange.hpp"

#include <array>
#include <utility>

#include "core/log.hpp"
#include "core/stop_request.hpp"
#include "core/stopwatch.hpp"
#include "optimizer/double_buffer.hpp"
#include "optimizer/gpu_double_buffer.hpp"
#include "optimizer/range_exchange.hpp"
#include "tensor/clock_scope.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {
namespace {

// Of ParameterArena::examples_notice().
constexpr std::int64_t examples_unit = 4096;

}  // namespace

std::string StepExchange::kind_of_step() const {
  return gradient_exchange_ ? gradient_exchange_->kind_of_step() : "";
}

// --- before a step ---

bool StepExchange::needs_status_message() const {
  if (!trained_.has_peers()) return false;
  return !trained_.is_on_cpu() || is_late() || trained_.model->communicates();
}

StepExchange::Status StepExchange::combine(const Status& own) {
  // Other ranks may not have a change, so all decide by the model that they had before.
  if (!own.model_changed) sends_status_ = needs_status_message();
  if (!sends_status_) return own;
  enum Place : std::size_t { changed, stop, examples, at_most_0, at_most_1, at_most_2 };
  std::array<std::int64_t, 6> message{};
  message[changed] = own.model_changed ? 1 : 0;
  message[stop] = stop_requested() ? 1 : 0;
  message[examples] = own.examples;
  // Each sum is the number of ranks whose readiness is at most 0, 1 or 2.
  for (int readiness = 0; readiness < 3; ++readiness)
    message[at_most_0 + static_cast<std::size_t>(readiness)] = own.readiness <= readiness ? 1 : 0;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(message), {std::ssize(message)});
  trained_.communicator->allreduce(sum);
  const auto of_all = sum.span<std::int64_t>();
  asked_to_stop_ = of_all[stop] != 0;
  Status combined{of_all[examples], 3, of_all[changed] != 0};
  for (int readiness = 2; readiness >= 0; --readiness)
    if (of_all[at_most_0 + static_cast<std::size_t>(readiness)] != 0)
      combined.readiness = readiness;
  return combined;
}

void StepExchange::announce_changed_model() {
  if (!gradient_exchange_ || sends_status_) return;
  trained_.arena->notice().fill(1);
  gradient_exchange_->begin_without_gradients();
  timed([this] { return gradient_exchange_->finish(); });
}

StepExchange::Agreement StepExchange::record_agreement(const Status& of_all,
                                                       bool is_further_batch) {
  const Agreed before = is_further_batch && has_agreed() ? *agreed_ : Agreed{};
  const Agreement agreement{before.agreement.global_examples + of_all.examples, of_all.readiness};
  agreed_ = {StepScope::number(), before.batches + 1, of_all.examples, agreement};
  return agreement;
}

std::int64_t StepExchange::expect(std::int64_t global_examples) {
  return gradient_exchange_ ? gradient_exchange_->expect(global_examples) : global_examples;
}

// Ranks agree on further batches, too, if layers exchange messages.
bool StepExchange::must_agree_before_forward() const {
  if (!has_agreed()) return true;
  return batches() >= agreed_->batches && trained_.has_peers() && trained_.model->communicates();
}

bool StepExchange::must_agree_before_begin() const {
  return gradient_exchange_ && !trained_.is_on_cpu() && !has_agreed();
}

bool StepExchange::takes_part(std::int64_t examples) const {
  if (examples > 0) return true;
  const bool has_none_anywhere = sends_status_ && has_agreed() && agreed_->examples_of_batch == 0;
  return trained_.model->communicates() && !has_none_anywhere;
}

// --- the batches of a step ---

void StepExchange::add_batch(std::int64_t examples) {
  if (!has_gradients()) {
    examples_ = 0;
    batches_ = 0;
    gradients_of_ = StepScope::number();
    if (gradient_exchange_) gradient_exchange_->begin_step();
  }
  examples_ += examples;
  ++batches_;
}

void StepExchange::end_step() {
  gradients_of_.reset();
  if (!StepScope::is_open()) agreed_.reset();
}

// --- the exchange of a step ---

void StepExchange::prepare() {
  if (gradient_exchange_) gradient_exchange_->prepare();
}

// On a GPU the agreement before a step may rebuild arrays, which a backward pass cannot.
bool StepExchange::may_begin_early() const {
  return gradient_exchange_ && (trained_.is_on_cpu() || has_agreed()) && !travels_after_backward();
}

void StepExchange::begin_pass() {
  gradient_exchange_->begin_pass();
  has_begun_ = true;
}

bool StepExchange::finish_pass() {
  has_begun_ = false;
  bool model_changed = false;
  timed([&] {
    model_changed = gradient_exchange_->finish_pass();
    return std::optional<GradientExchange::Sums>();
  });
  return model_changed;
}

void StepExchange::begin(std::optional<std::int64_t> global_examples, bool after_passes) {
  TASUKI_CHECK(!global_examples || examples_ <= *global_examples,
               "{} examples of a global batch of {}", examples_, *global_examples);
  if (!gradient_exchange_) {
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
  const GradientExchange::Examples examples{examples_, global_examples};
  if (after_passes)
    gradient_exchange_->begin_after_passes(examples);
  else
    gradient_exchange_->begin(examples);
  has_begun_ = true;
}

std::int64_t StepExchange::examples_on_gpu(std::optional<std::int64_t> global_examples) const {
  if (!global_examples && batches_ > agreed_->batches) {
    refuse_recording("a step has several batches whose examples on all ranks are not known");
    global_examples = trained_.sum_over_ranks(examples_);
  }
  if (!trained_.communicator->queues_exchanges())
    refuse_recording(fmt::format("communicator {} exchanges gradients by way of the host",
                                 trained_.communicator->name()));
  return global_examples.value_or(agreed_->agreement.global_examples);
}

void StepExchange::advance() {
  if (gradient_exchange_) gradient_exchange_->advance();
}

StepExchange::Sums StepExchange::finish() {
  if (!gradient_exchange_) return {examples_};
  note_moment(StepClock::Moment::exchange);
  has_begun_ = false;
  const std::optional<GradientExchange::Sums> sums =
      timed([this] { return gradient_exchange_->finish(); });
  if (!sums) return {};
  const Sums found = read_notices(sums->examples);
  gradient_exchange_->set_examples(found.examples);
  return found;
}

std::optional<StepExchange::Sums> StepExchange::flush() {
  if (!gradient_exchange_) return std::nullopt;
  const std::optional<GradientExchange::Sums> sums =
      timed([this] { return gradient_exchange_->flush(); });
  return sums ? std::optional(read_notices(sums->examples)) : std::nullopt;
}

void StepExchange::give_up() {
  has_begun_ = false;
  if (gradient_exchange_) gradient_exchange_->give_up();
}

template <class Work>
std::optional<GradientExchange::Sums> StepExchange::timed(const Work& work) {
  Stopwatch watch;
  const std::optional<GradientExchange::Sums> sums = work();
  if (!trained_.is_on_cpu()) return sums;
  times_.exposed += watch.lap();
  const double now = gradient_exchange_->transfer_seconds();
  times_.transfer += now - std::exchange(transfer_seconds_before_, now);
  return sums;
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

std::unique_ptr<GradientExchange> StepExchange::make_gradient_exchange() {
  ParameterArena& arena = *trained_.arena;
  Communicator& communicator = *trained_.communicator;
  ExchangeSettings settings = settings_;
  if (travels_after_backward()) settings.mode = ExchangeMode::whole;
  if (settings.mode != ExchangeMode::double_buffered || !communicator.exchanges_gradients())
    return std::make_unique<RangeExchange>(arena, communicator, settings,
                                           states_.owners().needed());
  if (!second_communicator_) second_communicator_ = communicator.split(0, communicator.rank());
  if (trained_.is_on_cpu())
    return std::make_unique<DoubleBuffer>(arena, *second_communicator_, communicator);
  return std::make_unique<GpuDoubleBuffer>(arena, *second_communicator_);
}

// With shards, a process that trains alone uses gradients when several would, to have their bits.
bool StepExchange::has_exchange() const {
  const bool is_late = settings_.mode == ExchangeMode::double_buffered;
  return trained_.has_peers() ||
         (trained_.shards > 0 && is_late && trained_.communicator != nullptr);
}

void StepExchange::follow_arena() {
  if (!has_exchange()) return;
  guard_.check(settings_);
  gradient_exchange_ = make_gradient_exchange();
  transfer_seconds_before_ = gradient_exchange_->transfer_seconds();
  sends_status_ = needs_status_message();
  if (trained_.communicator->rank() == 0 && gradient_exchange_->power_sgd() == nullptr)
    log_verbose("gradients are exchanged {}", gradient_exchange_->describe());
}

void StepExchange::follow_settings() {
  if (gradient_exchange_) gradient_exchange_->leave();
  leave_arena();
  follow_arena();
}

void StepExchange::leave_communicator() {
  leave_arena();
  second_communicator_.reset();
}

}  // namespace tasuki
