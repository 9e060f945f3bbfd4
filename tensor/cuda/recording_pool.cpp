#include "tensor/cuda/recording_pool.hpp"

#include <map>
#include <mutex>

namespace tasuki {
namespace {

struct Pools {
  std::mutex mutex;
  std::map<int, std::weak_ptr<BlockPool>> of_device;
};

Pools& pools() {
  static Pools made;
  return made;
}

}  // namespace

std::shared_ptr<BlockPool> recording_pool(const CudaContext& context) {
  const std::lock_guard lock(pools().mutex);
  std::weak_ptr<BlockPool>& kept = pools().of_device[context.device().index];
  std::shared_ptr<BlockPool> pool = kept.lock();
  if (!pool) kept = pool = context.make_pool(BlockPool::Segments::kept);
  return pool;
}

std::size_t recording_bytes(const CudaContext& context) {
  const std::lock_guard lock(pools().mutex);
  const auto found = pools().of_device.find(context.device().index);
  const auto pool = found != pools().of_device.end() ? found->second.lock() : nullptr;
  return pool ? pool->statistics().reserved : 0;
}

}  // namespace tasuki
