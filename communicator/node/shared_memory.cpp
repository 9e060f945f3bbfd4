#include "communicator/node/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "communicator/mpi/mpi.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"

namespace tasuki {
namespace {

// Owns a file descriptor.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// How the other ranks find a rank's memory and check that it is the right one: under different
// process-id namespaces the same path may lead to something else.
struct Ticket {
  std::array<char, 64> path{};
  std::uint64_t bytes = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

Ticket make_ticket(const File& file, const std::string& path, std::size_t bytes) {
  Ticket ticket;
  std::copy_n(path.begin(), std::min(path.size(), ticket.path.size() - 1), ticket.path.begin());
  ticket.bytes = bytes;
  struct stat status {};
  if (file && fstat(file.get(), &status) == 0) {
    ticket.device = status.st_dev;
    ticket.inode = status.st_ino;
  }
  return ticket;
}

// The error that kept this rank from sharing memory; empty if there was none.
using Obstacle = std::string;

Obstacle system_obstacle(const std::string& what) {
  return fmt::format("{}: {}", what, std::generic_category().message(errno));
}

// On every rank of the node, the obstacle of the first one that has one, with its rank in the job.
// Empty if all got this far. Also a barrier.
Obstacle first_obstacle(const Obstacle& own, MPI_Comm node) {
  int rank = 0, size = 0, world_rank = 0;
  TASUKI_MPI(MPI_Comm_rank, node, &rank);
  TASUKI_MPI(MPI_Comm_size, node, &size);
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &world_rank);
  int first = own.empty() ? size : rank;
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, node);
  if (first == size) return {};
  std::array<char, 256> text{};
  if (first == rank)
    fmt::format_to_n(text.begin(), text.size() - 1, "rank {}: {}", world_rank, own);
  TASUKI_MPI(MPI_Bcast, text.data(), static_cast<int>(text.size()), MPI_CHAR, first, node);
  return text.data();
}

// A way to make a file that others can open: how it is made, how it is opened by the path that its
// maker announces, and how its name is removed.
struct Way {
  File (*create)(std::string& path);
  int (*open)(const char* path);
  void (*forget)(const std::string& path);
};

const Way anonymous{
    [](std::string& path) {
      File file(memfd_create("tasuki", MFD_CLOEXEC));
      path = fmt::format("/proc/{}/fd/{}", getpid(), file.get());
      return file;
    },
    [](const char* path) { return open(path, O_RDWR | O_CLOEXEC); },
    [](const std::string& /*path*/) {},
};

const Way named{
    [](std::string& path) {
      static std::atomic<unsigned> count = 0;
      path = fmt::format("/tasuki-{}-{}-{}", getuid(), getpid(), ++count);
      return File(shm_open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR));
    },
    [](const char* path) { return shm_open(path, O_RDWR, 0); },
    [](const std::string& path) { shm_unlink(path.c_str()); },
};

// Reserves the pages now: an error here instead of a SIGBUS at the first use. `sparse`: makes the
// file as long, without pages.
Obstacle reserve(const File& file, std::size_t bytes, bool sparse) {
  if (bytes == 0) return {};
  if (sparse)
    return ftruncate(file.get(), checked_cast<off_t>(bytes, "shared memory")) == 0
               ? Obstacle()
               : system_obstacle("making shared memory");
  const int code = posix_fallocate(file.get(), 0, checked_cast<off_t>(bytes, "shared memory"));
  if (code == 0) return {};
  errno = code;
  return system_obstacle(fmt::format("reserving {} MiB of shared memory", bytes >> 20));
}

// `twice`: null, or how the first rank's memory is mapped twice.
struct Twice {
  bool sparse;
  SharedMapping copied_on_write{};
};
std::optional<std::vector<SharedMapping>> try_share(const Way& way, std::size_t bytes,
                                                    MPI_Comm node, Obstacle& obstacle,
                                                    Twice* twice) {
  const bool sparse = twice != nullptr && twice->sparse;
  std::string path;
  const File own = way.create(path);
  obstacle = own ? reserve(own, bytes, sparse) : system_obstacle("making shared memory");
  // What could not be made is nothing that others could map.
  const Ticket ticket = make_ticket(own, path, obstacle.empty() ? bytes : 0);

  int rank = 0, size = 0;
  TASUKI_MPI(MPI_Comm_rank, node, &rank);
  TASUKI_MPI(MPI_Comm_size, node, &size);
  std::vector<Ticket> tickets(static_cast<std::size_t>(size));
  TASUKI_MPI(MPI_Allgather, &ticket, sizeof ticket, MPI_BYTE, tickets.data(), sizeof ticket,
             MPI_BYTE, node);

  std::vector<SharedMapping> mappings(tickets.size());
  for (std::size_t other = 0; other < tickets.size() && obstacle.empty(); ++other) {
    const Ticket& found = tickets[other];
    if (found.bytes == 0) continue;
    const bool is_own = other == static_cast<std::size_t>(rank);
    const File file(is_own ? dup(own.get()) : way.open(found.path.data()));
    if (!file) {
      obstacle = system_obstacle(found.path.data());
    } else if (const Ticket seen = make_ticket(file, "", found.bytes);
               seen.device != found.device || seen.inode != found.inode) {
      obstacle = fmt::format("{} is not the memory of that rank", found.path.data());
    } else {
      mappings[other] = SharedMapping(file.get(), found.bytes, is_own && !sparse);
      const bool is_copied = twice != nullptr && other == 0;
      if (is_copied)
        twice->copied_on_write = SharedMapping::copied_on_write(file.get(), found.bytes);
      if (mappings[other].data() == nullptr ||
          (is_copied && twice->copied_on_write.data() == nullptr))
        obstacle = system_obstacle("mapping shared memory");
    }
  }
  obstacle = first_obstacle(obstacle, node);
  if (own) way.forget(path);
  if (!obstacle.empty()) return std::nullopt;
  return mappings;
}

}  // namespace

SharedMapping::SharedMapping(int file, std::size_t bytes, int flags) : bytes_(bytes) {
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (place != MAP_FAILED) data_ = static_cast<std::byte*>(place);
}

SharedMapping::SharedMapping(int file, std::size_t bytes, bool populate)
    : SharedMapping(file, bytes, MAP_SHARED | (populate ? MAP_POPULATE : 0)) {}

SharedMapping SharedMapping::copied_on_write(int file, std::size_t bytes) {
  return {file, bytes, MAP_PRIVATE};
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

namespace {

std::vector<SharedMapping> share(std::size_t bytes, MPI_Comm node, bool allow_anonymous,
                                 Twice* twice) {
  Obstacle first, second;
  if (allow_anonymous)
    if (auto mappings = try_share(anonymous, bytes, node, first, twice))
      return std::move(*mappings);
  if (auto mappings = try_share(named, bytes, node, second, twice)) return std::move(*mappings);
  throw Error(ErrorKind::unavailable,
              fmt::format("the ranks on {} cannot share memory ({}{}); give the container more "
                          "--shm-size, or use --communicator flat",
                          host_name(), first.empty() ? "" : first + "; ", second),
              scope_of_shared_error(node));
}

}  // namespace

std::vector<SharedMapping> share_memory(std::size_t bytes, MPI_Comm node, bool allow_anonymous) {
  return share(bytes, node, allow_anonymous, nullptr);
}

SharedBlock share_block(std::size_t bytes, MPI_Comm node, bool sparse) {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, node, &rank);
  Twice twice{sparse};
  std::vector<SharedMapping> mappings = share(rank == 0 ? bytes : 0, node, true, &twice);
  return {std::move(mappings.front()), std::move(twice.copied_on_write)};
}

}  // namespace tasuki
