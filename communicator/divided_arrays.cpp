// Exchanges of arrays of which each part belongs to one rank: sums of gradients that go to the rank
// that needs them, and values that go from their owners to all ranks.
#include "communicator/communicator.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/host_values.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/mpi/transfer.hpp"

namespace tasuki {

void Communicator::sum_scattered(const GradientView& gradients) {
  const Tensor& arena = gradients.arena;
  agree_on(gradients);
  const std::int64_t divided = gradients.divided();
  if (divided > 0) {
    std::vector<Range> parts;
    parts.reserve(ranks());
    for (int rank = 0; rank < size(); ++rank) parts.push_back(gradients.needed_by(rank));
    const Range mine = parts[static_cast<std::size_t>(rank())];
    const Tensor own = Tensor::empty({mine.size()}, arena.dtype());
    combine_part(arena.slice(0, divided), parts, own, ReduceOp::sum);
    arena.slice(mine.begin, mine.end).copy_from(own);
  }
  if (divided < arena.count()) combine(arena.slice(divided, arena.count()), ReduceOp::sum);
}

void Communicator::share_parts(const Tensor& values, std::span<const Range> parts,
                               bool once_per_node) {
  TASUKI_CHECK(values.defined() && values.shape().rank() == 1 && values.is_plain(),
               "share_parts() takes a plain array of one axis");
  TASUKI_CHECK(parts.size() == ranks(), "share_parts() of {} parts among {} ranks", parts.size(),
               ranks());
  const CollectiveScope scope(*this, Waiting::allgather, values.bytes(), "share_parts of {} {}",
                              values.count(), name_of(values.dtype()));
  check_free();
  if (size() == 1 || values.count() == 0) return;
  if (is_on_gpu(values)) return gpu().in_order([&] { give_parts_on_gpu(values, parts); });
  const HostValues host(values);
  give_parts(host.tensor(), parts, once_per_node);
  host.write_back();
}

void Communicator::give_parts(const Tensor& values, std::span<const Range> parts,
                              bool /*once_per_node*/) {
  tasuki::share_parts(values.raw(), parts, values.dtype(), comm().get(), call_bytes());
}

}  // namespace tasuki
