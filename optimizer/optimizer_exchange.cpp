// The exchange in an optimizer's step: sums of gradients over the ranks, and the few numbers that
// travel behind them.
#include "core/stop_request.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/clock_scope.hpp"

namespace tasuki {
namespace {

// Of ParameterArena::examples_notice().
constexpr std::int64_t examples_unit = 4096;

}  // namespace

std::int64_t Optimizer::exchange(std::optional<std::int64_t> global_examples) {
  TASUKI_CHECK(gradients_of_ == StepScope::number(), "exchange() comes after backward()");
  check_examples(global_examples);
  if (!trained_.has_peers() && global_examples && examples_ != *global_examples)
    fail(ErrorKind::usage,
         "the batch has {} examples on all ranks, of which this rank has {}, but the optimizer "
         "knows of no other rank: give it a communicator, "
         "create_multi_node_optimizer(std::move(optimizer), communicator)",
         *global_examples, examples_);
  for (const ParameterArena::Entry& entry : trained_.arena->entries())
    entry.parameter->fill_missing_grad();
  const std::int64_t examples =
      trained_.has_peers() ? exchange_over_ranks(global_examples) : examples_;
  guard_.search();
  return examples;
}

void Optimizer::check_examples(std::optional<std::int64_t> global_examples) const {
  TASUKI_CHECK(!global_examples || examples_ <= *global_examples,
               "{} examples of a global batch of {}", examples_, *global_examples);
}

void Optimizer::write_notices(std::optional<std::int64_t> global_examples) {
  if (stop_requested()) trained_.arena->stop_notice().fill(1);
  if (global_examples) return;
  float* const notice = trained_.arena->examples_notice().data<float>();
  const std::int64_t units = examples_ / examples_unit;
  notice[0] = static_cast<float>(examples_ - units * examples_unit);
  notice[1] = static_cast<float>(units);
}

void Optimizer::begin_exchange(std::optional<std::int64_t> global_examples) {
  check_examples(global_examples);
  if (trained_.arena->gradients().device().is_cpu()) {
    write_notices(global_examples);
  } else {
    if (!has_met()) meet(examples_);
    if (!global_examples && batches_ > met_->batches) {
      refuse_recording("a step has several batches whose examples on all ranks are not known");
      global_examples = trained_.sum_over_ranks(examples_);
    }
    if (!global_examples) global_examples = met_->agreement.global_examples;
    if (!trained_.communicator->queues_exchanges())
      refuse_recording(fmt::format("communicator {} exchanges gradients by way of the host",
                                   trained_.communicator->name()));
  }
  guard_.begin_search();
  exchange_->begin({examples_, global_examples});
}

std::int64_t Optimizer::exchange_over_ranks(std::optional<std::int64_t> global_examples) {
  if (!exchange_->has_begun()) begin_exchange(global_examples);
  note_moment(StepClock::Moment::exchange);
  const std::optional<GradientExchange::Sums> sums = exchange_->finish();
  if (!sums) return 0;
  const std::int64_t examples = read_notices(sums->examples);
  exchange_->set_examples(examples);
  return examples;
}

Optimizer::TransferTimes Optimizer::transfer_times() const {
  TransferTimes times = earlier_times_;
  if (exchange_) {
    times.transfer += exchange_->times().transfer;
    times.exposed += exchange_->times().exposed;
  }
  return times;
}

std::int64_t Optimizer::read_notices(std::optional<std::int64_t> global_examples) {
  if (trained_.arena->gradients().device().is_cpu()) {
    if (trained_.arena->notice().item() != 0) check_same_everywhere(false);
    asked_to_stop_ = trained_.arena->stop_notice().item() != 0;
    if (asked_to_stop_) trained_.arena->stop_notice().fill(0);
  }
  if (!global_examples) {
    const Tensor notice = trained_.arena->examples_notice();
    global_examples = static_cast<std::int64_t>(notice.data<float>()[0]) +
                      examples_unit * static_cast<std::int64_t>(notice.data<float>()[1]);
    notice.fill(0);
  }
  return *global_examples;
}

}  // namespace tasuki
