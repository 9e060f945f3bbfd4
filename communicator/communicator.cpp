#include "tasuki/communicator/communicator.hpp"

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

void Communicator::mean_gradients(const GradientView& gradients, double divisor) {
  sum_gradients(gradients);
  const double count = divisor == 0 ? size() : divisor;
  if (count != 1)
    backend(gradients.arena.device()).scale(gradients.arena, static_cast<float>(1 / count));
}

Tensor Communicator::recv(int source, int tag) {
  auto tensors = recv_many(source, tag);
  if (tensors.size() != 1)
    fail(ErrorKind::usage,
         "recv: rank {} sent {} tensors where one was expected; receive them with recv_many",
         source, tensors.size());
  return std::move(tensors.front());
}

}  // namespace tasuki
