#include "communicator/node/node_array.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "communicator/communicator.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/node/shared_counter.hpp"
#include "communicator/node/shared_memory.hpp"
#include "core/error.hpp"
#include "core/range.hpp"
#include "tensor/host_memory.hpp"

namespace tasuki {
namespace {

// A process's table of its pages (Linux: Documentation/admin-guide/mm/pagemap.rst).
class PageTable {
 public:
  PageTable() : file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~PageTable() {
    if (file_ >= 0) close(file_);
  }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // Finds the pages of a mapped file of which this process has private copies, as ranges of bytes
  // from `begin`, which is the beginning of a page. False: the system does not tell.
  bool find_copies(const std::byte* begin, std::size_t bytes, std::vector<Range>& copies) const {
    constexpr std::uint64_t is_present = std::uint64_t{1} << 63,
                            is_swapped = std::uint64_t{1} << 62,
                            is_of_file = std::uint64_t{1} << 61;
    const std::size_t size = page_size();
    const std::size_t pages = (bytes + size - 1) / size;
    const std::size_t first = reinterpret_cast<std::uintptr_t>(begin) / size;
    std::array<std::uint64_t, 4096> entries;
    for (std::size_t page = 0; page < pages;) {
      const std::size_t count = std::min(entries.size(), pages - page);
      const auto wanted = static_cast<ssize_t>(count * sizeof(std::uint64_t));
      const auto at = static_cast<off_t>((first + page) * sizeof(std::uint64_t));
      if (pread(file_, entries.data(), static_cast<std::size_t>(wanted), at) != wanted)
        return false;
      for (std::size_t i = 0; i < count; ++i, ++page) {
        if ((entries[i] & (is_present | is_swapped)) == 0 || (entries[i] & is_of_file) != 0)
          continue;
        const auto place = static_cast<std::int64_t>(page * size);
        if (!copies.empty() && copies.back().end == place)
          copies.back().end += static_cast<std::int64_t>(size);
        else
          copies.push_back({place, place + static_cast<std::int64_t>(size)});
      }
    }
    return true;
  }

 private:
  static std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }

  int file_;
};

}  // namespace

struct NodeArray::Memory {
  SharedBlock block;
  std::size_t bytes = 0;  // of the values; a barrier lies behind them
  std::uint32_t ranks = 0;
  PageTable pages;

  std::byte* shared() const { return block.shared.data(); }
  std::byte* own() const { return block.copied_on_write.data(); }
};

std::unique_ptr<NodeArray> NodeArray::make(std::size_t bytes, MPI_Comm node,
                                           std::optional<std::size_t> written) {
  int rank = 0, ranks = 0;
  TASUKI_MPI(MPI_Comm_rank, node, &rank);
  TASUKI_MPI(MPI_Comm_size, node, &ranks);
  // Writing to a shared page without memory behind it kills the process.
  if (rank == 0) require_host_memory(written.value_or(bytes));
  const auto memory = std::make_shared<Memory>();
  memory->bytes = (bytes + 63) / 64 * 64;
  memory->ranks = static_cast<std::uint32_t>(ranks);
  memory->block = share_block(memory->bytes + sizeof(SharedBarrier), node, written.has_value());
  // Whether the system tells what a process has written.
  std::vector<Range> copies;
  memory->own()[0] = std::byte{0};
  int is_told =
      memory->pages.find_copies(memory->own(), memory->bytes + 1, copies) && copies.size() == 1;
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &is_told, 1, MPI_INT, MPI_MIN, node);
  if (is_told == 0) return nullptr;
  std::unique_ptr<NodeArray> made(new NodeArray(memory, bytes));
  made->forget(copies);
  return made;
}

NodeArray::NodeArray(std::shared_ptr<Memory> memory, std::size_t bytes)
    : memory_(std::move(memory)) {
  const auto keep = [kept = memory_](void*, std::size_t) {};
  shared_ = std::make_shared<Storage>(memory_->shared(), bytes, Device::cpu(), keep);
  own_ = std::make_shared<Storage>(memory_->own(), bytes, Device::cpu(), keep);
}

NodeArray::~NodeArray() = default;

std::vector<Range> NodeArray::written() const {
  std::vector<Range> found;
  if (!memory_->pages.find_copies(memory_->own(), own_->bytes(), found))
    fail(ErrorKind::internal, "/proc/self/pagemap could be read before and cannot be read now");
  return found;
}

void NodeArray::publish(const std::vector<Range>& written, Range bytes) const {
  for (const Range& pages : written) {
    const std::int64_t begin = std::max(bytes.begin, pages.begin);
    const std::int64_t end = std::min(bytes.end, pages.end);
    if (begin < end)
      std::memcpy(memory_->shared() + begin, memory_->own() + begin,
                  static_cast<std::size_t>(end - begin));
  }
}

void NodeArray::forget(const std::vector<Range>& written) const {
  for (const Range& pages : written)
    if (madvise(memory_->own() + pages.begin, static_cast<std::size_t>(pages.size()),
                MADV_DONTNEED) != 0)
      fail(ErrorKind::internal, "pages of shared memory cannot be given back: {}",
           std::generic_category().message(errno));
}

void NodeArray::give_back(Range bytes) const {
  give_back_pages(memory_->shared(), bytes, true);
}

void NodeArray::barrier() const {
  reinterpret_cast<SharedBarrier*>(memory_->shared() + memory_->bytes)->wait(memory_->ranks);
}

std::unique_ptr<NodeArray> allocate_once(Communicator& communicator, std::size_t bytes,
                                         std::optional<std::size_t> written) {
  const CollectiveScope scope(communicator, Waiting::allocate, bytes, "allocate_once of {} bytes",
                              bytes);
  TASUKI_CHECK(communicator.inter_size() == 1, "allocate_once() among ranks on {} nodes",
               communicator.inter_size());
  return communicator.shares_memory() ? NodeArray::make(bytes, scope.comm(), written) : nullptr;
}

void barrier(Communicator& communicator, const NodeArray& array) {
  const CollectiveScope scope(communicator, Waiting::barrier, "barrier in common memory");
  array.barrier();
}

}  // namespace tasuki
