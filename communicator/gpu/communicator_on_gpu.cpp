// Operations of a communicator on values in the memory of its GPU.
#include "communicator/communicator.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/mpi/transfer.hpp"

namespace tasuki {

bool Communicator::is_on_gpu(const Tensor& values) const {
  return values.defined() && !values.device().is_cpu() && values.device() == options().device &&
         values.is_plain();
}

GpuExchange& Communicator::gpu() {
  if (!gpu_)
    gpu_ = std::make_unique<GpuExchange>(
        options().device, AllreduceSettings{options().algorithm, options().sizes, options().link});
  return *gpu_;
}

void Communicator::sum_gradients_on_gpu(const GradientView& gradients) {
  check_free();
  if (size() == 1) return;
  // Ranks agree once on what they do in every step. Asking in each step would make the hosts wait
  // for each other.
  const std::string text =
      fmt::format("{} gradients of {}", gradients.arena.count(), name_of(gradients.arena.dtype()));
  if (!agreed_.contains(text)) require_agreement("sum_gradients", text);
  agreed_.insert(text);
  if (gradients.arena.count() == 0) return;
  gpu().in_order([&] { sum_on_gpu(gradients); });
}

void Communicator::combine_on_gpu(const Tensor& values, ReduceOp op) {
  gpu().on_host(values, [&](const Tensor& host) { combine(host, op); });
}

void Communicator::sum_on_gpu(const GradientView& gradients) {
  combine_on_gpu(gradients.arena, ReduceOp::sum);
}

void Communicator::bcast_on_gpu(const Tensor& values) {
  gpu().on_host(values, [&](const Tensor& host) {
    tasuki::bcast({static_cast<std::byte*>(host.raw()), host.bytes()}, 0, comm().get(),
                  call_bytes());
  });
}

void Communicator::give_parts_on_gpu(const Tensor& values, std::span<const Range> parts) {
  gpu().on_host(values, [&](const Tensor& host) { give_parts(host, parts, false); });
}

}  // namespace tasuki
