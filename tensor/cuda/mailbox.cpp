// What a step leaves for the host, which does not wait for it: rows of scalars and moments of its
// clock.
#include <utility>

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/mailbox_kernels.hpp"
#include "tensor/cuda/postponed_release.hpp"

namespace tasuki {

// Portable and mapped: the address is the same on the device.
std::shared_ptr<Storage> CudaBackend::allocate_mailbox(std::size_t bytes, Device device) {
  CudaContext::of(device);
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
             "cudaHostAlloc");
  return std::make_shared<Storage>(
      data, bytes, Device::cpu(),
      [index = device.index](void* block, std::size_t) { free_pinned(block, index); });
}

namespace {

// Null: `clock` is undefined.
StepClock* step_clock(const Tensor& clock) {
  if (!clock) return nullptr;
  TASUKI_CHECK(clock.count() == step_clock_values, "a clock of {}", clock.shape().text());
  return reinterpret_cast<StepClock*>(clock.data<double>());
}

}  // namespace

void CudaBackend::post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars,
                       const Tensor& clock) {
  TASUKI_CHECK(std::ssize(scalars) < table.shape()[1], "{} scalars for a table of {}",
               scalars.size(), table.shape().text());
  kernels::PostedScalars posted{};
  const auto post_them = [&] {
    kernels::post(launch_on(row), table.data<double>(), table.shape()[0], table.shape()[1],
                  row.data<std::int64_t>(), posted, posted.are_last ? step_clock(clock) : nullptr);
    check_launch("post");
  };
  for (const Tensor& scalar : scalars) {
    TASUKI_CHECK(scalar.count() == 1 && scalar.device() == row.device(),
                 "a scalar on {} was expected, not {} on {}", row.device().text(),
                 scalar.shape().text(), scalar.device().text());
    if (posted.count == kernels::most_posted) {
      post_them();
      posted.before += std::exchange(posted.count, 0);
    }
    posted.values[posted.count] = scalar.raw();
    posted.types[posted.count++] = scalar.dtype();
  }
  posted.are_last = true;
  post_them();
}

void CudaBackend::stamp(const Tensor& clock, StepClock::Moment moment) {
  kernels::stamp(launch_on(clock), step_clock(clock), moment);
  check_launch("stamp");
}

}  // namespace tasuki
