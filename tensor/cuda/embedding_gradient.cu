// The gradient of an embedding: rows of dy are sorted by their ids and added up run by run.
#include <utility>

#include "tensor/cuda/embedding_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

// --- a stable radix sort, by 8 bits at a time ---

struct SortedPlace {
  std::int64_t id, place;
};

constexpr int digits = 256;
static_assert(digits == block_threads, "a thread of a block for each digit, and for each element");

// The id of each place, or `rows` for ids that do not count, and the places in order.
template <class Id>
__global__ void list_places_kernel(const Id* ids, Ids all, std::int64_t rows, SortedPlace* sorted) {
  for (std::int64_t i = thread_index(); i < all.count; i += thread_count()) {
    const std::int64_t id = ids[i];
    const bool counts = 0 <= id && id < rows && !(all.has_ignore && id == all.ignore);
    sorted[i] = {counts ? id : rows, i};
  }
}

__device__ int digit_of(const SortedPlace& place, int shift) {
  return static_cast<int>(place.id >> shift) & (digits - 1);
}

// A block for each `digits` elements: how many have which digit, counts[digit * blocks + block].
__global__ void count_digits_kernel(const SortedPlace* from, std::int64_t count, int shift,
                                    std::int64_t* counts) {
  __shared__ int own[digits];
  own[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t i = thread_index();
  if (i < count) atomicAdd(own + digit_of(from[i], shift), 1);
  __syncthreads();
  counts[std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = own[threadIdx.x];
}

// Each count becomes the sum of all before it. One block; its threads have a part each.
__global__ void scan_kernel(std::int64_t* counts, std::int64_t length) {
  __shared__ std::int64_t sums[block_threads];
  const std::int64_t begin = length * threadIdx.x / block_threads;
  const std::int64_t end = length * (threadIdx.x + 1) / block_threads;
  std::int64_t sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  std::int64_t before = 0;
  for (unsigned other = 0; other < threadIdx.x; ++other) before += sums[other];
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t own = counts[i];
    counts[i] = before;
    before += own;
  }
}

// Elements of one digit keep their order.
__global__ void scatter_kernel(const SortedPlace* from, std::int64_t count, int shift,
                               const std::int64_t* starts, SortedPlace* to) {
  __shared__ int own[digits];
  const std::int64_t i = thread_index();
  const int digit = i < count ? digit_of(from[i], shift) : 0;
  own[threadIdx.x] = digit;
  __syncthreads();
  if (i >= count) return;
  std::int64_t before = 0;
  for (unsigned other = 0; other < threadIdx.x; ++other) before += own[other] == digit ? 1 : 0;
  to[starts[std::int64_t{digit} * gridDim.x + blockIdx.x] + before] = from[i];
}

// --- sums of runs of one id ---

struct Sorted {
  const SortedPlace* places;
  std::int64_t count, rows;

  __device__ bool is_first_of_run(std::int64_t i) const {
    return i == 0 || places[i - 1].id != places[i].id;
  }
  __device__ bool is_last_of_run(std::int64_t i) const {
    return i + 1 == count || places[i + 1].id != places[i].id;
  }
};

constexpr std::int64_t piece = 64;

// A warp for each piece of the sorted places and each 32 columns. Runs that lie in a piece are
// added to dw. Sums of a run that began before it go to the piece's first row of `parts`, of one
// that begins here and goes on behind it to the second one.
template <class T>
__global__ void add_pieces_kernel(Sorted sorted, const T* dy, float* dw, float* parts,
                                  std::int64_t columns) {
  const std::int64_t groups = (columns + 31) / 32, pieces = (sorted.count + piece - 1) / piece;
  for (std::int64_t task = thread_index() / 32; task < pieces * groups;
       task += thread_count() / 32) {
    const std::int64_t column = task % groups * 32 + threadIdx.x % 32,
                       begin = task / groups * piece;
    if (column >= columns) continue;
    float* const own = parts + task / groups * 2 * columns + column;
    const std::int64_t end = begin + piece < sorted.count ? begin + piece : sorted.count;
    bool began_before = !sorted.is_first_of_run(begin);
    float sum = 0;
    for (std::int64_t i = begin; i < end && sorted.places[i].id < sorted.rows; ++i) {
      const SortedPlace place = sorted.places[i];
      sum += convert<float>(dy[place.place * columns + column]);
      const bool ends = sorted.is_last_of_run(i);
      if (!ends && i + 1 < end) continue;
      if (began_before)
        own[0] = sum;
      else if (ends)
        dw[place.id * columns + column] += sum;
      else
        own[columns] = sum;
      sum = 0;
      began_before = false;
    }
  }
}

// Adds up the parts of each run that goes on behind the piece in which it begins.
__global__ void join_pieces_kernel(Sorted sorted, const float* parts, float* dw,
                                   std::int64_t columns) {
  const std::int64_t groups = (columns + 31) / 32, pieces = (sorted.count + piece - 1) / piece;
  for (std::int64_t task = thread_index() / 32; task < pieces * groups;
       task += thread_count() / 32) {
    const std::int64_t column = task % groups * 32 + threadIdx.x % 32, first = task / groups;
    const std::int64_t end = (first + 1) * piece;
    if (column >= columns || end >= sorted.count) continue;
    const std::int64_t id = sorted.places[end - 1].id;
    if (id == sorted.rows || sorted.is_last_of_run(end - 1)) continue;
    // Without a run's first place this piece lies in the middle of it.
    if (sorted.places[first * piece].id == id && !sorted.is_first_of_run(first * piece)) continue;
    float sum = parts[(first * 2 + 1) * columns + column];
    for (std::int64_t next = first + 1; next < pieces && sorted.places[next * piece].id == id;
         ++next)
      sum += parts[next * 2 * columns + column];
    dw[id * columns + column] += sum;
  }
}

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>((count + block_threads - 1) / block_threads);
}

}  // namespace

EmbeddingScratch embedding_scratch(std::int64_t count, std::int64_t columns) {
  const std::int64_t pieces = (count + piece - 1) / piece;
  const std::int64_t counts = digits * std::int64_t{blocks_of(count)};
  return {4 * count + counts, 2 * pieces * columns};
}

void embed_backward(const Launch& launch, DType type, const Ids& ids, const void* dy, float* dw,
                    std::int64_t rows, std::int64_t columns, std::int64_t* numbers, float* sums) {
  const unsigned grid = blocks_of(ids.count);
  auto* from = reinterpret_cast<SortedPlace*>(numbers);
  auto* to = from + ids.count;
  std::int64_t* const counts = numbers + 4 * ids.count;
  with_ids(ids, [&](const auto* values) {
    list_places_kernel<<<grid, block_threads, 0, launch.stream>>>(values, ids, rows, from);
  });
  for (int shift = 0; rows >> shift != 0; shift += 8) {
    count_digits_kernel<<<grid, block_threads, 0, launch.stream>>>(from, ids.count, shift, counts);
    scan_kernel<<<1, block_threads, 0, launch.stream>>>(counts, std::int64_t{digits} * grid);
    scatter_kernel<<<grid, block_threads, 0, launch.stream>>>(from, ids.count, shift, counts, to);
    std::swap(from, to);
  }
  const Sorted sorted{from, ids.count, rows};
  const unsigned warps =
      grid_for(launch, (ids.count + piece - 1) / piece * ((columns + 31) / 32) * 32);
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_pieces_kernel<<<warps, block_threads, 0, launch.stream>>>(sorted, static_cast<const T*>(dy),
                                                                  dw, sums, columns);
  });
  if (ids.count > piece)
    join_pieces_kernel<<<warps, block_threads, 0, launch.stream>>>(sorted, sums, dw, columns);
}

}  // namespace tasuki::kernels
