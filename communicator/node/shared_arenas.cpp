#include "communicator/node/shared_arenas.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "tensor/host_memory.hpp"

namespace tasuki {

// This rank's blocks by their first address.
struct SharedArenas::Table {
  std::mutex mutex;
  std::map<const std::byte*, std::shared_ptr<const Segment>> segments;
};

std::shared_ptr<SharedArenas::Table> SharedArenas::make_table() {
  return std::make_shared<Table>();
}

std::shared_ptr<Storage> SharedArenas::allocate(std::size_t bytes, MPI_Comm node) {
  require_host_memory(
      bytes);  // writing to a shared page without memory behind it kills the process
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, node, &rank);
  auto segment = std::make_shared<Segment>();
  segment->number = ++segments_made_;
  // At least one byte, so that every storage has a unique address.
  segment->blocks = share_memory(std::max<std::size_t>(bytes, 1), node);
  std::byte* own = segment->blocks[static_cast<std::size_t>(rank)].data();
  {
    const std::lock_guard lock(table_->mutex);
    table_->segments.emplace(own, std::move(segment));
  }
  const auto release = [table = table_](void* data, std::size_t /*bytes*/) {
    const std::lock_guard lock(table->mutex);
    table->segments.erase(static_cast<const std::byte*>(data));
  };
  return std::make_shared<Storage>(own, bytes, Device::cpu(), release);
}

SharedArenas::Place SharedArenas::find(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  const std::lock_guard lock(table_->mutex);
  auto after = table_->segments.upper_bound(place);
  if (after == table_->segments.begin()) return {};
  --after;
  const std::byte* begin = after->first;
  const std::shared_ptr<const Segment>& segment = after->second;
  const auto offset = static_cast<std::size_t>(place - begin);
  const auto own = std::find_if(segment->blocks.begin(), segment->blocks.end(),
                                [&](const SharedMapping& block) { return block.data() == begin; });
  if (offset >= own->bytes()) return {};
  return {segment, offset};
}

}  // namespace tasuki
