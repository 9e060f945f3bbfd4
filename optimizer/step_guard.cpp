#include "optimizer/step_guard.hpp"

#include "communicator/sum_search.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

void StepGuard::scale_losses(const LossScaler::Settings& settings, Communicator* parts) {
  scaler_.emplace(trained_.checked_arena().values().device(), settings);
  parts_ = parts;
  check(exchange_settings_);
  trained_.revision.advance();
}

void StepGuard::skip_non_finite(Communicator* parts) {
  if (trained_.has_peers() && !trained_.communicator->exchanges_gradients())
    fail_everywhere(ErrorKind::usage,
                    "--on-nan skip and --communicator {}: ranks that exchange no gradients cannot "
                    "agree on steps to leave out; leave one out",
                    trained_.communicator->name());
  finite_.emplace(trained_.checked_arena().values().device());
  parts_ = parts;
  check(exchange_settings_);
  trained_.revision.advance();
}

void StepGuard::skip_with(const StepGuard& other) {
  TASUKI_CHECK(finite_ && other.finite_, "skip_with() comes after skip_non_finite() of both");
  finite_->share_flag(*other.finite_);
  trained_.revision.advance();
}

void StepGuard::check(const ExchangeSettings& settings) const {
  if (!trained_.has_peers()) return;
  const std::string conflict =
      conflict_in(settings, {.is_on_gpu = !trained_.is_on_cpu(),
                             .wire_dtype = trained_.communicator->options().wire_dtype,
                             .scales_losses = scaler_.has_value(),
                             .skips_non_finite = finite_.has_value(),
                             .layers_communicate = trained_.model->communicates(),
                             .has_shards = trained_.shards > 0,
                             .keeps_sums_only = trained_.arena->keeps_sums_only(),
                             .divides_weights = trained_.arena->is_divided()});
  if (!conflict.empty()) fail_everywhere(ErrorKind::usage, "{}", conflict);
}

// --- a step ---

void StepGuard::begin_step() {
  if (!finite_ || (StepScope::is_open() && begun_ == StepScope::number())) return;
  finite_->begin(*trained_.model);
  begun_ = StepScope::number();
}

void StepGuard::note_loss(const Tensor& loss, bool is_further_batch) const {
  if (finite_) FiniteGuard::note_loss(trained_.arena->loss_notice(), loss, is_further_batch);
}

Tensor StepGuard::seed(const Tensor& mean, std::int64_t examples) const {
  if (scaler_) return scaler_->seed(static_cast<double>(examples));
  // A number that is carried anyway saves the launch that fills one.
  if (examples == expected_examples_ && mean.count() == 1 && mean.dtype() == DType::float32)
    if (const Tensor carried = seed_.on_if_carried(mean.device(), 1); carried)
      return carried.reshape(mean.shape());
  return Tensor::full(mean.shape(), static_cast<float>(examples), mean.dtype(), mean.device());
}

// Sums of gradients that loss scaling searches anyway are left to it, and so are sums of several
// exchanges.
bool StepGuard::communicator_searches() const {
  if (!finite_ || scaler_ || !trained_.has_peers() || trained_.arena->keeps_sums_only())
    return false;
  const SumSearch* const search = trained_.communicator->sum_search();
  return search != nullptr && search->can_search_sums();
}

void StepGuard::begin_search() const {
  if (communicator_searches()) trained_.communicator->sum_search()->begin_search();
}

void StepGuard::search() {
  if (!finite_) return;
  if (begun_ != StepScope::number()) {  // no forward() in this step
    finite_->begin(*trained_.model);
    begun_ = StepScope::number();
  }
  finite_->search(trained_.arena->loss_notice());
  if (communicator_searches()) {
    if (trained_.communicator->sum_search()->end_search()) finite_->note_found();
    return agree_among_parts(finite_->found());
  }
  const Range summed = states_.owners().summed();
  if (!scaler_) finite_->search(trained_.arena->gradients().slice(summed.begin, summed.end));
  agree(finite_->found());
}

void StepGuard::unscale() const {
  if (!scaler_) return;
  const Range summed = states_.owners().summed();
  scaler_->unscale(trained_.arena->gradients().slice(summed.begin, summed.end));
  agree(scaler_->found());
  // What the search has found counts here, too, and all ranks have agreed on it.
  if (finite_) backend(finite_->found().device()).accumulate(scaler_->found(), finite_->found(), 1);
}

void StepGuard::agree(const Tensor& found) const {
  if (!states_.owners().needed().empty()) states_.owners().take_largest(found);
  agree_among_parts(found);
}

void StepGuard::agree_among_parts(const Tensor& found) const {
  if (parts_ == nullptr) return;
  if (!trained_.is_on_cpu() && !parts_->queues_exchanges())
    refuse_recording("parts of a model agree by way of the host on whether they skip a step");
  parts_->allreduce(found, ReduceOp::max);
}

bool StepGuard::leaves_out_on_host() const {
  return finite_ && trained_.is_on_cpu() && !scaler_ && finite_->has_found();
}

const float* StepGuard::skip() const {
  if (scaler_) return scaler_->skip();
  return finite_ ? finite_->skip() : nullptr;
}

void StepGuard::adjust_scale() const {
  if (scaler_) scaler_->adjust();
}

bool StepGuard::settle() {
  if (!finite_ || !finite_->has_found()) return false;
  ++skipped_;
  finite_->restore(*trained_.model);
  return true;
}

}  // namespace tasuki
