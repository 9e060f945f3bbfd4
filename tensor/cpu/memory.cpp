// Memory of the CPU backend: allocation, copies between types and layouts, filling.
#include <cmath>
#include <cstring>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/half.hpp"
#include "tensor/host_memory.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

// Types in memory, and the types that are computed with.
struct Half {
  using Memory = std::uint16_t;
  static float load(Memory bits) { return float_from_half(bits); }
  template <class T>
  static Memory store(T value) {
    return half_from_float(static_cast<float>(value));
  }
};
struct Bfloat16 {
  using Memory = std::uint16_t;
  static float load(Memory bits) { return float_from_bfloat16(bits); }
  template <class T>
  static Memory store(T value) {
    return bfloat16_from_float(static_cast<float>(value));
  }
};
template <class Native>
struct As {
  using Memory = Native;
  static Native load(Native value) { return value; }
  template <class T>
  static Native store(T value) {
    return static_cast<Native>(value);
  }
};

template <class Visitor>
void with_type(DType type, Visitor&& visitor) {
  switch (type) {
    case DType::float32:
      return visitor(As<float>{});
    case DType::float64:
      return visitor(As<double>{});
    case DType::float16:
      return visitor(Half{});
    case DType::bfloat16:
      return visitor(Bfloat16{});
    case DType::int32:
      return visitor(As<std::int32_t>{});
    case DType::int64:
      return visitor(As<std::int64_t>{});
    case DType::uint8:
      return visitor(As<std::uint8_t>{});
  }
}

template <class To, class From>
void convert(void* destination, const void* source, std::int64_t count) {
  auto* const to = static_cast<typename To::Memory*>(destination);
  const auto* const from = static_cast<const typename From::Memory*>(source);
  for (std::int64_t i = 0; i < count; ++i) to[i] = To::store(From::load(from[i]));
}

void convert_floats(const Tensor& to, const Tensor& from) {
  const FloatElements source(from), destination(to);
  for_float_blocks<1>(from.count(), {source}, destination,
                      [](const std::array<const float*, 1>& in, float* out, std::int64_t count) {
                        if (in[0] != out) std::copy_n(in[0], count, out);
                      });
}

}  // namespace

std::string CpuBackend::describe() const {
  return "oneDNN " + dnnl_version_text();
}

std::shared_ptr<Storage> CpuBackend::allocate(std::size_t bytes, Device) {
  return allocate_host(bytes);
}

DeviceMemory CpuBackend::memory(Device) {
  const HostPoolStatistics pool = host_pool_statistics();
  return {pool.in_use, host_pool_peak(), find_host_memory().free + pool.cached};
}

void CpuBackend::copy(const Tensor& destination, const Tensor& source) {
  const std::int64_t count = source.count();
  if (count == 0) return;
  if (destination.layout() != source.layout() && destination.dtype() == source.dtype())
    return reorder_into(destination, source, false);
  const Tensor from = destination.dtype() == source.dtype() ? source : source.plain();
  TASUKI_CHECK(destination.layout() == from.layout(),
               "a copy of {} cannot change type and layout at once", source.shape().text());
  if (destination.dtype() == from.dtype()) {
    const std::size_t size = size_of(from.dtype());
    auto* const to = static_cast<std::byte*>(destination.raw());
    const auto* const bytes = static_cast<const std::byte*>(from.raw());
    const std::int64_t stored = from.is_plain() ? count : stored_count(from);
    parallel_for(stored, elementwise_grain * 4, [&](std::int64_t begin, std::int64_t end) {
      std::memmove(to + static_cast<std::size_t>(begin) * size,
                   bytes + static_cast<std::size_t>(begin) * size,
                   static_cast<std::size_t>(end - begin) * size);
    });
    return;
  }
  if (is_activation_type(destination.dtype()) && is_activation_type(from.dtype()))
    return convert_floats(destination, from);
  // Other types have few values: labels, statistics.
  with_type(destination.dtype(), [&](auto to) {
    with_type(from.dtype(), [&](auto type) {
      convert<decltype(to), decltype(type)>(destination.raw(), from.raw(), count);
    });
  });
}

void CpuBackend::fill(const Tensor& destination, double value) {
  if (destination.count() == 0) return;
  if (value == 0 && !std::signbit(value)) {
    const std::int64_t stored =
        destination.is_plain() ? destination.count() : stored_count(destination);
    std::memset(destination.raw(), 0,
                static_cast<std::size_t>(stored) * size_of(destination.dtype()));
    return;
  }
  if (!destination.is_plain())
    return reorder_into(destination, Tensor::full(destination.shape(), value, destination.dtype()),
                        false);
  with_type(destination.dtype(), [&](auto type) {
    using Type = decltype(type);
    auto* const to = static_cast<typename Type::Memory*>(destination.raw());
    std::fill_n(to, destination.count(), Type::store(value));
  });
}

}  // namespace tasuki
