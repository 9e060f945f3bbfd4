#include "tensor/backend.hpp"

#include <array>
#include <atomic>
#include <mutex>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/elementwise_operations.hpp"

namespace tasuki {
namespace {

// Backends by kind of device. Registered ones live until the process ends, because tensors with
// static lifetime may need them that long.
struct Registry {
  std::mutex mutex;
  std::array<std::atomic<Backend*>, 2> backends{};

  Registry() { backends[static_cast<std::size_t>(DeviceKind::cpu)] = new CpuBackend; }
  static Registry& instance() {
    static auto* const registry = new Registry;
    return *registry;
  }
};

}  // namespace

Backend& backend(Device device) {
  Backend* const found = Registry::instance().backends[static_cast<std::size_t>(device.kind)].load(
      std::memory_order_acquire);
  if (found == nullptr)
    fail(ErrorKind::unavailable,
         "device {} needs the CUDA backend, which is not loaded; call load_cuda_backend(), or "
         "start the program with --gpu",
         device.text());
  return *found;
}

Tensor Backend::add_linear(const Tensor& added, const Tensor& x, const Tensor& w, const Tensor& b) {
  return add(added, linear(x, w, b, false));
}

Tensor Backend::linear_gelu(const Tensor& x, const Tensor& w, const Tensor& b, bool approximate,
                            Tensor* before) {
  *before = linear(x, w, b, false);
  return elementwise().map(approximate ? Map::gelu_tanh : Map::gelu, *before, 0, 0);
}

void register_backend(DeviceKind kind, std::unique_ptr<Backend> implementation) {
  TASUKI_CHECK(implementation != nullptr, "the backend to register is null");
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  auto& entry = registry.backends[static_cast<std::size_t>(kind)];
  TASUKI_CHECK(entry.load() == nullptr, "the backend of {} is registered already",
               Device{kind, 0}.text());
  entry.store(implementation.release(), std::memory_order_release);
}

}  // namespace tasuki
