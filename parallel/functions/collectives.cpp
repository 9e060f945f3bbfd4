#include "parallel/functions/collectives.hpp"

#include <span>

#include "core/range.hpp"
#include "nn/recompute.hpp"
#include "parallel/functions/exchange.hpp"
#include "tensor/backend.hpp"
#include "tensor/reduce.hpp"

namespace tasuki::functions {
namespace {

// Added in the order of ranks.
Tensor sum_of(const std::vector<Tensor>& tensors) {
  const Tensor& first = tensors.front();
  for (const Tensor& tensor : tensors)
    if (tensor.shape() != first.shape() || tensor.dtype() != first.dtype())
      fail(ErrorKind::disagreement,
           "expected gradients of one shape and type from all ranks, found {} {} and {} {}",
           name_of(first.dtype()), first.shape().text(), name_of(tensor.dtype()),
           tensor.shape().text());
  if (!first.device().is_cpu()) {
    Tensor sum = first;
    for (const Tensor& tensor : std::span(tensors).subspan(1))
      sum = backend(sum.device()).add(sum, tensor);
    return sum;
  }
  Tensor sum = Tensor::empty(first.shape(), first.dtype());
  std::vector<const void*> sources;
  sources.reserve(tensors.size());
  for (const Tensor& tensor : tensors) sources.push_back(tensor.raw());
  void* const destination = sum.raw();
  reduce_arrays(sum.dtype(), ReduceOp::sum, sources, {&destination, 1}, sum.count());
  return sum;
}

// Of values that lie behind each other along axis 0.
Tensor joined(const std::vector<Tensor>& parts, const Shape& shape) {
  Tensor whole = Tensor::empty(shape, parts.front().dtype(), parts.front().device());
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    const std::int64_t end = begin + part.shape()[0];
    if (end > begin) whole.slice(begin, end).copy_from(part);
    begin = end;
  }
  return whole;
}

Tensor summed(Communicator& communicator, const Tensor& values) {
  // Its memory must not be anybody else's.
  Tensor sum = values.plain().clone().to(communicator.options().device);
  communicator.allreduce(sum);
  return sum;
}

}  // namespace

Variable bcast(Communicator& communicator, const Variable& x, int root) {
  refuse_repetition_of("bcast", communicator);
  const Tensor own = communicator.rank() == root ? checked_value("bcast", x) : Tensor();
  return record_exchange("bcast", communicator, communicator.bcast(own, root), {x},
                         [&communicator, root](const std::vector<Tensor>& gradients) {
                           const Tensor sum = gradients[0].plain().clone();
                           communicator.reduce(sum, ReduceOp::sum, root);
                           return communicator.rank() == root ? std::vector<Tensor>{sum}
                                                              : std::vector<Tensor>();
                         });
}

std::vector<Variable> gather(Communicator& communicator, const Variable& x, int root) {
  refuse_repetition_of("gather", communicator);
  Exchanged exchanged =
      record_exchange("gather", communicator, communicator.gather(checked_value("gather", x), root),
                      {x}, [&communicator, root](const std::vector<Tensor>& gradients) {
                        return std::vector<Tensor>{communicator.scatter(gradients, root)};
                      });
  if (communicator.rank() != root) return {exchanged.delegate};
  return std::move(exchanged.results);
}

Variable scatter(Communicator& communicator, const std::vector<Variable>& xs, int root) {
  refuse_repetition_of("scatter", communicator);
  const bool is_root = communicator.rank() == root;
  const auto own = is_root ? checked_values("scatter", xs) : std::vector<Tensor>();
  return record_exchange("scatter", communicator, communicator.scatter(own, root), xs,
                         [&communicator, root](const std::vector<Tensor>& gradients) {
                           return communicator.gather(gradients[0], root);
                         });
}

std::vector<Variable> allgather(Communicator& communicator, const Variable& x) {
  refuse_repetition_of("allgather", communicator);
  return record_exchange("allgather", communicator,
                         communicator.allgather(checked_value("allgather", x)), {x},
                         [&communicator](const std::vector<Tensor>& gradients) {
                           return std::vector<Tensor>{sum_of(communicator.alltoall(gradients))};
                         })
      .results;
}

std::vector<Variable> alltoall(Communicator& communicator, const std::vector<Variable>& xs) {
  refuse_repetition_of("alltoall", communicator);
  return record_exchange("alltoall", communicator,
                         communicator.alltoall(checked_values("alltoall", xs)), xs,
                         [&communicator](const std::vector<Tensor>& gradients) {
                           return communicator.alltoall(gradients);
                         })
      .results;
}

Variable allreduce(Communicator& communicator, const Variable& x) {
  refuse_recomputing("allreduce");
  if (!communicator.queues_exchanges()) refuse_repetition_of("allreduce", communicator);
  return record_exchange("allreduce", communicator,
                         summed(communicator, checked_value("allreduce", x)), {x},
                         [&communicator](const std::vector<Tensor>& gradients) {
                           return std::vector<Tensor>{summed(communicator, gradients[0])};
                         });
}

Variable reduce_scatter(Communicator& communicator, const Variable& x) {
  refuse_repetition_of("reduce_scatter", communicator);
  const Tensor values = checked_value("reduce_scatter", x).plain();
  if (values.shape().rank() == 0)
    fail(ErrorKind::usage, "reduce_scatter divides axis 0, which a scalar does not have");
  return record_exchange(
      "reduce_scatter", communicator, communicator.reduce_scatter(values), {x},
      [&communicator, shape = values.shape()](const std::vector<Tensor>& gradients) {
        return std::vector<Tensor>{joined(communicator.allgather(gradients[0]), shape)};
      });
}

}  // namespace tasuki::functions
