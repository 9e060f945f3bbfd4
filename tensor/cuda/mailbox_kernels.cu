#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/mailbox_kernels.hpp"

namespace tasuki::kernels {
namespace {

__device__ double scalar_as_double(DType type, const void* value) {
  switch (type) {
    case DType::float32:
      return *static_cast<const float*>(value);
    case DType::float64:
      return *static_cast<const double*>(value);
    case DType::float16:
      return __half2float(*static_cast<const __half*>(value));
    case DType::bfloat16:
      return __bfloat162float(*static_cast<const __nv_bfloat16*>(value));
    case DType::int32:
      return *static_cast<const std::int32_t*>(value);
    case DType::int64:
      return static_cast<double>(*static_cast<const std::int64_t*>(value));
    case DType::uint8:
      return *static_cast<const std::uint8_t*>(value);
  }
  return 0;
}

// The timer counts nanoseconds.
__device__ void advance(StepClock* clock, StepClock::Moment moment) {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  clock->advance(moment, static_cast<double>(now) * 1e-9);
}

// One thread, because there are few numbers and their order matters.
__global__ void post_kernel(volatile double* table, std::int64_t rows, std::int64_t columns,
                            const std::int64_t* row, PostedScalars scalars, StepClock* clock) {
  volatile double* const to = table + *row % rows * columns;
  for (int i = 0; i < scalars.count; ++i)
    to[scalars.before + i + 1] = scalar_as_double(scalars.types[i], scalars.values[i]);
  if (!scalars.are_last) return;
  __threadfence_system();
  to[0] = static_cast<double>(*row + 1);
  if (clock != nullptr) advance(clock, StepClock::Moment::end);
}

// One thread, so that moments stay in order.
__global__ void stamp_kernel(StepClock* clock, StepClock::Moment moment) {
  advance(clock, moment);
}

}  // namespace

void post(const Launch& launch, double* table, std::int64_t rows, std::int64_t columns,
          const std::int64_t* row, const PostedScalars& scalars, StepClock* clock) {
  post_kernel<<<1, 1, 0, launch.stream>>>(table, rows, columns, row, scalars, clock);
}

void stamp(const Launch& launch, StepClock* clock, StepClock::Moment moment) {
  stamp_kernel<<<1, 1, 0, launch.stream>>>(clock, moment);
}

}  // namespace tasuki::kernels
