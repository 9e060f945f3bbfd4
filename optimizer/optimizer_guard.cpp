// What decides whether an optimizer leaves out a step: a look at losses and at sums of gradients.
#include "communicator/sum_search.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki {
void Optimizer::note_loss(const Tensor& loss) {
  FiniteGuard::note_loss(trained_.arena->loss_notice(), loss, batches_ > 1);
}

// Sums of gradients that loss scaling searches anyway are left to it.
bool Optimizer::communicator_searches() const {
  if (!guard_ || loss_scaler_ || !trained_.has_peers()) return false;
  const SumSearch* const search = trained_.communicator->sum_search();
  return search != nullptr && search->can_search_sums();
}

void Optimizer::begin_search() const {
  if (communicator_searches()) trained_.communicator->sum_search()->begin_search();
}

void Optimizer::search_gradients() {
  if (!guard_) return;
  if (guarded_ != StepScope::number()) {  // no forward() in this step
    guard_->begin(*trained_.model);
    guarded_ = StepScope::number();
  }
  guard_->search(trained_.arena->loss_notice());
  if (communicator_searches()) {
    if (trained_.communicator->sum_search()->end_search()) guard_->note_found();
    return agree_among_parts(guard_->found());
  }
  const Range own = states_.summed();
  if (!loss_scaler_) guard_->search(trained_.arena->gradients().slice(own.begin, own.end));
  agree_to_skip(guard_->found());
}

void Optimizer::agree_to_skip(const Tensor& found) const {
  if (!states_.needed().empty()) states_.owners().take_largest(found);
  agree_among_parts(found);
}

void Optimizer::agree_among_parts(const Tensor& found) const {
  if (parts_ == nullptr) return;
  if (!trained_.arena->values().device().is_cpu() && !parts_->queues_exchanges())
    refuse_recording("parts of a model agree by way of the host on whether they skip a step");
  parts_->allreduce(found, ReduceOp::max);
}

}  // namespace tasuki
