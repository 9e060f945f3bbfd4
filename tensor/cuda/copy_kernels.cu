#include "tensor/cuda/copy_kernels.hpp"

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

template <class To, class From>
__global__ void convert_kernel(To* to, const From* from, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    to[i] = convert<To>(from[i]);
}

// Between the types of activations, eight values at a time.
template <class T>
struct alignas(8 * sizeof(T)) Eight {
  T values[8];
};
template <class To, class From>
__global__ void convert_eights_kernel(Eight<To>* to, const Eight<From>* from, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const Eight<From> in = from[i];
    Eight<To> out;
    for (int j = 0; j < 8; ++j) out.values[j] = convert<To>(in.values[j]);
    to[i] = out;
  }
}

template <class T>
__global__ void fill_kernel(T* to, T value, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) to[i] = value;
}

constexpr int tile = 32, tile_rows = 8;

template <class T>
__global__ void transpose_kernel(T* to, const T* from, std::int64_t rows, std::int64_t columns,
                                 std::int64_t tiles_across, std::int64_t tiles_per_item,
                                 std::int64_t tiles) {
  __shared__ T shared[tile][tile + 1];  // one more, so that columns spread over the banks
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t item = t / tiles_per_item, within = t % tiles_per_item;
    const std::int64_t row = within / tiles_across * tile, column = within % tiles_across * tile;
    const T* const source = from + item * rows * columns;
    T* const destination = to + item * rows * columns;
    for (int i = threadIdx.y; i < tile; i += tile_rows)
      if (row + i < rows && column + threadIdx.x < columns)
        shared[i][threadIdx.x] = source[(row + i) * columns + column + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < tile; i += tile_rows)
      if (column + i < columns && row + threadIdx.x < rows)
        destination[(column + i) * rows + row + threadIdx.x] = shared[threadIdx.x][i];
    __syncthreads();
  }
}

template <class T>
void transpose_as(const Launch& launch, void* to, const void* from, std::int64_t items,
                  std::int64_t rows, std::int64_t columns) {
  const std::int64_t across = (columns + tile - 1) / tile, down = (rows + tile - 1) / tile;
  const std::int64_t tiles = items * across * down;
  const unsigned grid = static_cast<unsigned>(
      std::min<std::int64_t>(tiles, std::int64_t{launch.multiprocessors} * 32));
  transpose_kernel<<<grid, dim3(tile, tile_rows), 0, launch.stream>>>(
      static_cast<T*>(to), static_cast<const T*>(from), rows, columns, across, across * down,
      tiles);
}

template <class T, class Index>
__global__ void copy_runs_kernel(std::byte* to, std::int64_t to_step, const std::byte* from,
                                 std::int64_t from_step, std::int64_t rows, std::int64_t length) {
  const std::int64_t count = rows * length;
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const auto [row, j] = divide(static_cast<Index>(i), static_cast<Index>(length));
    reinterpret_cast<T*>(to + row * to_step)[j] =
        reinterpret_cast<const T*>(from + row * from_step)[j];
  }
}

}  // namespace

void convert(const Launch& launch, DType to, void* destination, DType from, const void* source,
             std::int64_t count) {
  if (count == 0) return;
  // Eight values of these types have at most 32 bytes.
  const bool is_wide = reinterpret_cast<std::uintptr_t>(destination) % 32 == 0 &&
                       reinterpret_cast<std::uintptr_t>(source) % 32 == 0;
  std::int64_t done = 0;
  if (is_wide && count >= 8) {
    with_float_type(to, [&](auto to_type) {
      with_float_type(from, [&](auto from_type) {
        using To = typename decltype(to_type)::type;
        using From = typename decltype(from_type)::type;
        const std::int64_t eights = count / 8;
        convert_eights_kernel<<<grid_for(launch, eights), block_threads, 0, launch.stream>>>(
            static_cast<Eight<To>*>(destination), static_cast<const Eight<From>*>(source), eights);
        done = eights * 8;
      });
    });
  }
  if (done == count) return;
  with_type(to, [&](auto to_type) {
    with_type(from, [&](auto from_type) {
      using To = typename decltype(to_type)::type;
      using From = typename decltype(from_type)::type;
      convert_kernel<<<grid_for(launch, count - done), block_threads, 0, launch.stream>>>(
          static_cast<To*>(destination) + done, static_cast<const From*>(source) + done,
          count - done);
    });
  });
}

void fill(const Launch& launch, DType type, void* destination, double value, std::int64_t count) {
  if (count == 0) return;
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // Rounded like convert() does: to float first if the type is narrower.
    T element;
    if constexpr (std::is_same_v<T, __half>)
      element = __float2half_rn(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      element = __float2bfloat16_rn(static_cast<float>(value));
    else
      element = static_cast<T>(value);
    fill_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        static_cast<T*>(destination), element, count);
  });
}

void transpose(const Launch& launch, void* destination, const void* source,
               std::size_t element_bytes, std::int64_t items, std::int64_t rows,
               std::int64_t columns) {
  if (items * rows * columns == 0) return;
  switch (element_bytes) {
    case 1:
      return transpose_as<std::uint8_t>(launch, destination, source, items, rows, columns);
    case 2:
      return transpose_as<std::uint16_t>(launch, destination, source, items, rows, columns);
    case 4:
      return transpose_as<std::uint32_t>(launch, destination, source, items, rows, columns);
    default:
      return transpose_as<std::uint64_t>(launch, destination, source, items, rows, columns);
  }
}

void copy_runs(const Launch& launch, void* destination, std::int64_t to_step, const void* source,
               std::int64_t from_step, std::int64_t rows, std::int64_t length) {
  if (rows * length == 0) return;
  auto* const to = static_cast<std::byte*>(destination);
  const auto* const from = static_cast<const std::byte*>(source);
  const auto copy_as = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t per_run = length / static_cast<std::int64_t>(sizeof(T));
    with_index(rows * per_run, [&](auto index) {
      copy_runs_kernel<T, decltype(index)>
          <<<grid_for(launch, rows * per_run), block_threads, 0, launch.stream>>>(
              to, to_step, from, from_step, rows, per_run);
    });
  };
  // The widest element of which everything is a multiple.
  const auto everything = reinterpret_cast<std::uintptr_t>(destination) |
                          reinterpret_cast<std::uintptr_t>(source) |
                          static_cast<std::uintptr_t>(to_step | from_step | length);
  if (everything % 16 == 0)
    copy_as(Type<uint4>{});
  else if (everything % 4 == 0)
    copy_as(Type<std::uint32_t>{});
  else if (everything % 2 == 0)
    copy_as(Type<std::uint16_t>{});
  else
    copy_as(Type<std::uint8_t>{});
}

}  // namespace tasuki::kernels
