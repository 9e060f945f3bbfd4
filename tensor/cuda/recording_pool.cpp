#include "tasuki/tensor/cuda/recording_pool.hpp"

#include <map>
#include <mutex>

namespace tasuki {

std::shared_ptr<BlockPool> recording_pool(const CudaContext& context) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<BlockPool>> pools;
  const std::lock_guard lock(mutex);
  std::weak_ptr<BlockPool>& kept = pools[context.device().index];
  std::shared_ptr<BlockPool> pool = kept.lock();
  if (!pool) kept = pool = context.make_pool();
  return pool;
}

}  // namespace tasuki
