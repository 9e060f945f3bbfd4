#include "tensor/cuda/gather_kernels.hpp"

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

template <class To, class From>
__device__ To decode(From value) {
  if constexpr (std::is_same_v<From, std::uint8_t> && !std::is_same_v<To, std::uint8_t>)
    return convert<To>(__fdiv_rn(static_cast<float>(value), 255.0f));
  else
    return convert<To>(value);
}

template <class T, int width>
struct alignas(width * sizeof(T)) Group {
  T values[width];
};

// `groups` of `width` neighbouring values per item.
template <int width, class Index, class To, class From>
__global__ void gather_kernel(Group<To, width>* to, const Group<From, width>* from,
                              std::int64_t source_items, const std::int64_t* indices,
                              std::int64_t items, std::int64_t groups) {
  for (std::int64_t i = thread_index(); i < items * groups; i += thread_count()) {
    const auto [item, within] = divide(static_cast<Index>(i), static_cast<Index>(groups));
    const std::int64_t index = indices[item];
    Group<To, width> out{};
    if (0 <= index && index < source_items) {
      const Group<From, width> in = from[index * groups + within];
      for (int j = 0; j < width; ++j) out.values[j] = decode<To>(in.values[j]);
    }
    to[i] = out;
  }
}

template <int width, class To, class From>
void run(const Launch& launch, void* destination, const void* source, std::int64_t source_items,
         const std::int64_t* indices, std::int64_t items, std::int64_t count) {
  const std::int64_t groups = count / width;
  with_index(items * groups, [&](auto index) {
    gather_kernel<width, decltype(index)>
        <<<grid_for(launch, items * groups), block_threads, 0, launch.stream>>>(
            static_cast<Group<To, width>*>(destination),
            static_cast<const Group<From, width>*>(source), source_items, indices, items, groups);
  });
}

// Four values at a time if all items start at a multiple of that.
template <class To, class From>
void gather_as(const Launch& launch, void* destination, const void* source,
               std::int64_t source_items, const std::int64_t* indices, std::int64_t items,
               std::int64_t count) {
  const bool fours = count % 4 == 0 &&
                     reinterpret_cast<std::uintptr_t>(destination) % (4 * sizeof(To)) == 0 &&
                     reinterpret_cast<std::uintptr_t>(source) % (4 * sizeof(From)) == 0;
  if (fours)
    run<4, To, From>(launch, destination, source, source_items, indices, items, count);
  else
    run<1, To, From>(launch, destination, source, source_items, indices, items, count);
}

}  // namespace

void gather(const Launch& launch, DType to, void* destination, DType from, const void* source,
            std::int64_t source_items, const std::int64_t* indices, std::int64_t items,
            std::int64_t count) {
  if (items * count == 0) return;
  const auto start = [&](auto to_type, auto from_type) {
    gather_as<typename decltype(to_type)::type, typename decltype(from_type)::type>(
        launch, destination, source, source_items, indices, items, count);
  };
  if (to == from)
    with_type(to, [&](auto type) { start(type, type); });
  else if (from == DType::uint8)
    with_float_type(to, [&](auto type) { start(type, Type<std::uint8_t>{}); });
  else
    with_float_type(to, [&](auto type) { start(type, Type<float>{}); });
}

}  // namespace tasuki::kernels
