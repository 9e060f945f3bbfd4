#include "communicator/gpu/gpu_transport.hpp"

#include <atomic>

namespace tasuki {
namespace {

// Lives until the process ends, like the backend.
std::atomic<GpuTransport*> registered = nullptr;

}  // namespace

Range gpu_part(std::int64_t count, DType type, int rank, int ranks) {
  const auto unit = static_cast<std::int64_t>(128 / size_of(type));
  const std::int64_t part = count / ranks / unit * unit;
  return {rank * part, rank == ranks - 1 ? count : (rank + 1) * part};
}

void GpuGroup::give_parts(const Tensor& values, std::span<const Range> parts) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    if (parts[rank].size() > 0)
      broadcast(values.slice(parts[rank].begin, parts[rank].end), static_cast<int>(rank));
}

GpuTransport& gpu_transport() {
  GpuTransport* const transport = registered.load(std::memory_order_acquire);
  if (transport == nullptr)
    fail(ErrorKind::unavailable,
         "values on a GPU cannot be exchanged because no CUDA backend is loaded; use --gpu");
  return *transport;
}

void register_gpu_transport(std::unique_ptr<GpuTransport> transport) {
  TASUKI_CHECK(transport != nullptr, "the transport to register is null");
  GpuTransport* none = nullptr;
  const bool first = registered.compare_exchange_strong(none, transport.get());
  TASUKI_CHECK(first, "a transport between GPUs is registered already");
  static_cast<void>(transport.release());
}

}  // namespace tasuki
