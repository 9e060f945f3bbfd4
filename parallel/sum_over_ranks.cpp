#include "parallel/sum_over_ranks.hpp"

#include "tensor/late_values.hpp"

namespace tasuki {

Tensor SumOverRanks::of(const Tensor& own) {
  const bool is_on_cpu = own.device().is_cpu();
  if (!is_on_cpu && !communicator_->queues_exchanges())
    refuse_recording(
        fmt::format("{} by {} exchanges sums by way of the host", layer_, communicator_->name()));
  const bool is_as_before =
      sums_.defined() && sums_.shape() == own.shape() && sums_.dtype() == own.dtype();
  if (!is_on_cpu) {
    sums_ = own.plain().clone();
  } else {
    if (!is_as_before) sums_ = {communicator_->allocate(own.bytes()), 0, own.shape(), own.dtype()};
    sums_.copy_from(own);
  }
  communicator_->allreduce(sums_, ReduceOp::sum, is_agreed_ && is_as_before);
  is_agreed_ = true;
  return sums_;
}

}  // namespace tasuki
