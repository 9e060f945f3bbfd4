#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/reduce_kernels.hpp"

namespace tasuki::kernels {
namespace {

constexpr int tile_columns = 32, tile_rows = 8;
constexpr std::int64_t most_parts = 512;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The number of parts that fill the device with `blocks_each` blocks each, none with fewer than
// `least` values.
SumPlan plan_parts(int multiprocessors, std::int64_t blocks_each, std::int64_t values,
                   std::int64_t least) {
  const std::int64_t filling = divide_up(std::int64_t{multiprocessors} * 4, blocks_each);
  const std::int64_t parts = std::min({filling, divide_up(values, least), most_parts});
  return {std::max<std::int64_t>(parts, 1)};
}

// Where a block writes its sum: to the result itself if there is only one part.
__device__ void put(float sum, float* destination, bool is_result, bool accumulate) {
  *destination = is_result && accumulate ? *destination + sum : sum;
}

template <class T>
__global__ void column_sums_kernel(const T* x, std::int64_t rows, std::int64_t columns, float* sums,
                                   bool is_result, bool accumulate) {
  const std::int64_t column = std::int64_t{blockIdx.x} * tile_columns + threadIdx.x;
  float sum = 0;
  if (column < columns)
    for (std::int64_t r = std::int64_t{blockIdx.y} * tile_rows + threadIdx.y; r < rows;
         r += std::int64_t{gridDim.y} * tile_rows)
      sum += convert<float>(x[r * columns + column]);
  __shared__ float shared[tile_rows][tile_columns];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < tile_rows; ++i) sum += shared[i][threadIdx.x];
  put(sum, sums + blockIdx.y * columns + column, is_result, accumulate);
}

template <class Index, class T>
__global__ void channel_sums_kernel(const T* x, std::int64_t items, std::int64_t channels,
                                    std::int64_t pixels, float* sums, bool is_result,
                                    bool accumulate) {
  const std::int64_t channel = blockIdx.x, values = items * pixels;
  float sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < values;
       i += std::int64_t{gridDim.y} * blockDim.x) {
    const auto [item, pixel] = divide(static_cast<Index>(i), static_cast<Index>(pixels));
    sum += convert<float>(x[(item * channels + channel) * pixels + pixel]);
  }
  __shared__ float shared[32];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) put(sum, sums + blockIdx.y * channels + channel, is_result, accumulate);
}

__global__ void join_parts_kernel(const float* parts, std::int64_t count, std::int64_t columns,
                                  float* sums, bool accumulate) {
  for (std::int64_t c = thread_index(); c < columns; c += thread_count()) {
    float sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += parts[i * columns + c];
    put(sum, sums + c, true, accumulate);
  }
}

void join_parts(const Launch& launch, const SumPlan& plan, const float* scratch,
                std::int64_t columns, float* sums, bool accumulate) {
  if (plan.parts == 1) return;
  join_parts_kernel<<<grid_for(launch, columns, 64), 64, 0, launch.stream>>>(
      scratch, plan.parts, columns, sums, accumulate);
}

template <class Index, class T>
__global__ void add_bias_kernel(T* x, const float* bias, std::int64_t count, std::int64_t columns,
                                bool relu) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const float sum =
        convert<float>(x[i]) + bias[static_cast<Index>(i) % static_cast<Index>(columns)];
    x[i] = convert<T>(relu && sum < 0 ? 0.0f : sum);
  }
}

// A float's square is exact in double.
__global__ void squared_norm_kernel(const float* x, std::int64_t count, double* sums) {
  double sum = 0;
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  __shared__ double shared[32];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void sum_kernel(const double* values, std::int64_t count, double* result) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += values[i];
  __shared__ double shared[32];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

SumPlan plan_column_sums(int multiprocessors, std::int64_t rows, std::int64_t columns) {
  return plan_parts(multiprocessors, divide_up(std::max<std::int64_t>(columns, 1), tile_columns),
                    rows, 16 * tile_rows);
}

SumPlan plan_channel_sums(int multiprocessors, std::int64_t values, std::int64_t channels) {
  return plan_parts(multiprocessors, std::max<std::int64_t>(channels, 1), values,
                    4 * block_threads);
}

void column_sums(const Launch& launch, const SumPlan& plan, DType type, const void* x,
                 std::int64_t rows, std::int64_t columns, float* sums, bool accumulate,
                 float* scratch) {
  const bool is_result = plan.parts == 1;
  const dim3 grid(static_cast<unsigned>(divide_up(columns, tile_columns)),
                  static_cast<unsigned>(plan.parts));
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    column_sums_kernel<<<grid, dim3(tile_columns, tile_rows), 0, launch.stream>>>(
        static_cast<const T*>(x), rows, columns, is_result ? sums : scratch, is_result, accumulate);
  });
  join_parts(launch, plan, scratch, columns, sums, accumulate);
}

void channel_sums(const Launch& launch, const SumPlan& plan, DType type, const void* x,
                  std::int64_t items, std::int64_t channels, std::int64_t pixels, float* sums,
                  bool accumulate, float* scratch) {
  const bool is_result = plan.parts == 1;
  const dim3 grid(static_cast<unsigned>(channels), static_cast<unsigned>(plan.parts));
  with_float_type(type, [&](auto tag) {
    with_index(items * pixels, [&](auto index) {
      using T = typename decltype(tag)::type;
      channel_sums_kernel<decltype(index)><<<grid, block_threads, 0, launch.stream>>>(
          static_cast<const T*>(x), items, channels, pixels, is_result ? sums : scratch, is_result,
          accumulate);
    });
  });
  join_parts(launch, plan, scratch, channels, sums, accumulate);
}

void add_bias(const Launch& launch, DType type, void* x, const float* bias, std::int64_t rows,
              std::int64_t columns, bool relu) {
  const std::int64_t count = rows * columns;
  if (count == 0) return;
  with_float_type(type, [&](auto tag) {
    with_index(count, [&](auto index) {
      using T = typename decltype(tag)::type;
      add_bias_kernel<decltype(index)>
          <<<grid_for(launch, count), block_threads, 0, launch.stream>>>(static_cast<T*>(x), bias,
                                                                         count, columns, relu);
    });
  });
}

std::int64_t squared_norm_parts(int multiprocessors, std::int64_t count) {
  return std::clamp<std::int64_t>(divide_up(count, 8 * block_threads), 1,
                                  std::int64_t{multiprocessors} * 8);
}

void squared_norm(const Launch& launch, const float* x, std::int64_t count, double* result,
                  double* scratch) {
  const std::int64_t parts = squared_norm_parts(launch.multiprocessors, count);
  squared_norm_kernel<<<static_cast<unsigned>(parts), block_threads, 0, launch.stream>>>(x, count,
                                                                                         scratch);
  sum_kernel<<<1, block_threads, 0, launch.stream>>>(scratch, parts, result);
}

}  // namespace tasuki::kernels
