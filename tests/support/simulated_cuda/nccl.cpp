// NCCL between processes of one machine: every operation goes over sockets to the group's rank 0
// and back. Members connect in ncclCommInitRankConfig, to a socket whose name is the unique id.
//
// A communicator may not be finalized while a graph holds operations of it: NCCL waits until there
// is none, which is forever where the same thread would destroy the graph. Here the process ends.
#include <nccl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "queue.hpp"
#include "values.hpp"

struct ncclComm {
  int rank = 0, ranks = 0;
  std::vector<int> sockets;  // rank 0: of the others, by rank; others: that to rank 0
  std::atomic<ncclResult_t> state = ncclSuccess;
  std::atomic<bool> is_given_up = false;
};

namespace tasuki::simulated {
namespace {

using Bytes = std::vector<std::byte>;
using Comm = std::shared_ptr<ncclComm>;

// Work that is queued keeps its communicator.
struct Comms {
  std::mutex mutex;
  std::map<ncclComm_t, Comm> all;
  std::map<std::string, int> listeners;  // by id, made by this process
};

Comms& comms() {
  static auto* const instance = new Comms;
  return *instance;
}

Comm found(ncclComm_t comm) {
  const std::lock_guard lock(comms().mutex);
  const auto place = comms().all.find(comm);
  return place == comms().all.end() ? nullptr : place->second;
}

bool transfer(int socket, bool sends, void* data, std::size_t bytes) {
  auto* place = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t done =
        sends ? ::send(socket, place, bytes, MSG_NOSIGNAL) : ::recv(socket, place, bytes, 0);
    if (done <= 0) return false;
    place += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}
bool send(int socket, Bytes& bytes) {
  return transfer(socket, true, bytes.data(), bytes.size());
}
bool receive(int socket, Bytes& bytes) {
  return transfer(socket, false, bytes.data(), bytes.size());
}

sockaddr_un address_of(const std::string& id, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, id.data(), id.size());  // an abstract name: no file
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + id.size());
  return address;
}

// --- values ---

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

template <class T>
T combined(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

template <class T>
void combine_as(Bytes& into, const Bytes& other, ncclRedOp_t op) {
  auto* const a = reinterpret_cast<T*>(into.data());
  const auto* const b = reinterpret_cast<const T*>(other.data());
  for (std::size_t i = 0; i < into.size() / sizeof(T); ++i) a[i] = combined(a[i], b[i], op);
}

void combine_narrow(ValueType type, Bytes& into, const Bytes& other, ncclRedOp_t op) {
  for (std::size_t i = 0; i < into.size() / 2; ++i)
    store(type, into.data(), i,
          combined(load(type, into.data(), i), load(type, other.data(), i), op));
}

void combine(ncclDataType_t type, Bytes& into, const Bytes& other, ncclRedOp_t op) {
  switch (type) {
    case ncclFloat16:
      return combine_narrow(ValueType::float16, into, other, op);
    case ncclBfloat16:
      return combine_narrow(ValueType::bfloat16, into, other, op);
    case ncclFloat64:
      return combine_as<double>(into, other, op);
    case ncclInt32:
      return combine_as<std::int32_t>(into, other, op);
    case ncclInt64:
      return combine_as<std::int64_t>(into, other, op);
    case ncclUint8:
      return combine_as<std::uint8_t>(into, other, op);
    default:
      return combine_as<float>(into, other, op);
  }
}

// --- operations ---

Bytes fetch(const void* values, std::size_t bytes) {
  const Access access;
  const auto* const begin = static_cast<const std::byte*>(values);
  return {begin, begin + bytes};
}
void put(void* values, const Bytes& bytes) {
  const Access access;
  std::memcpy(values, bytes.data(), bytes.size());
}

// As NCCL's kernels: one that misses a rank stays on the device until the communicator is aborted.
void hang(ncclComm& comm) {
  comm.state = ncclRemoteError;
  while (!comm.is_given_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Rank 0 makes of all ranks' bytes, by rank, what each rank gets.
using Make = std::function<void(std::vector<Bytes>&)>;

// Hands in `own` and returns what comes back, as many bytes as `result`; false when a rank is lost.
bool through_root(ncclComm& comm, Bytes& own, Bytes& result, const Make& make) {
  if (comm.rank != 0) return send(comm.sockets[0], own) && receive(comm.sockets[0], result);
  std::vector<Bytes> all(static_cast<std::size_t>(comm.ranks), Bytes(own.size()));
  all[0] = own;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (!receive(comm.sockets[rank], all[rank])) return false;
  make(all);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (!send(comm.sockets[rank], all[rank])) return false;
  result = all[0];
  return true;
}

// --- launches: a single operation is one, and so is a group on a stream ---

struct Group {
  int depth = 0;
  std::vector<std::pair<cudaStream_t, std::vector<std::function<void()>>>> of_streams;
};
thread_local Group group;

void launch(cudaStream_t stream, std::function<void()> work) {
  if (group.depth == 0) return enqueue(stream, std::move(work), "launch.nccl");
  const auto found =
      std::ranges::find(group.of_streams, stream, [](const auto& each) { return each.first; });
  if (found == group.of_streams.end())
    group.of_streams.push_back({stream, {std::move(work)}});
  else
    found->second.push_back(std::move(work));
}

void launch_group() {
  for (auto& [stream, operations] : std::exchange(group.of_streams, {}))
    enqueue(
        stream,
        [all = std::move(operations)] {
          for (const std::function<void()>& operation : all) operation();
        },
        "launch.nccl");
}

// Queues an operation in which a rank hands in `bytes_in` of `from` and gets `bytes_out`, which go
// to `to` where `gets` says so.
ncclResult_t exchange(ncclComm_t handle, cudaStream_t stream, const void* from,
                      std::size_t bytes_in, void* to, std::size_t bytes_out, bool gets,
                      const Make& make) {
  const Comm comm = found(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (comm->state != ncclSuccess) return comm->state;
  if (bytes_in == 0 && bytes_out == 0) return ncclSuccess;
  launch(stream, [=] {
    if (comm->is_given_up) return;
    Bytes own = fetch(from, bytes_in), result(bytes_out);
    if (!through_root(*comm, own, result, make)) return hang(*comm);
    if (gets) put(to, result);
  });
  return ncclSuccess;
}

// The combination of all, in the order of ranks, to everybody.
Make combine_all(ncclDataType_t type, ncclRedOp_t op) {
  return [type, op](std::vector<Bytes>& all) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) combine(type, all[0], all[rank], op);
    for (std::size_t rank = 1; rank < all.size(); ++rank) all[rank] = all[0];
  };
}

// Once the queues are empty, nothing but graphs still holds work of a communicator.
void refuse_if_recorded(const Comm& comm) {
  constexpr auto others = 2;  // the table of communicators, and the caller
  if (comm.use_count() <= others) return;
  std::fputs("simulated NCCL: a communicator is finalized while a graph holds its operations\n",
             stderr);
  std::abort();
}

void close_sockets(ncclComm& comm) {
  for (const int socket : comm.sockets)
    if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
}

bool connect_root(ncclComm& comm, const std::string& id) {
  int listener = -1;
  {
    const std::lock_guard lock(comms().mutex);
    listener = comms().listeners.at(id);
  }
  for (int i = 1; i < comm.ranks; ++i) {
    const int socket = ::accept(listener, nullptr, nullptr);
    int rank = 0;
    if (socket < 0 || !transfer(socket, false, &rank, sizeof(rank))) return false;
    comm.sockets[static_cast<std::size_t>(rank)] = socket;
  }
  ::close(listener);
  return true;
}

bool connect_member(ncclComm& comm, const std::string& id) {
  socklen_t length = 0;
  const sockaddr_un address = address_of(id, length);
  comm.sockets[0] = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return ::connect(comm.sockets[0], reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
         transfer(comm.sockets[0], true, &comm.rank, sizeof(comm.rank));
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t /*result*/) {
  return "an error of the simulated NCCL";
}
const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique) {
  static std::atomic<int> count = 0;
  const std::string id =
      "tasuki-nccl-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
  std::memset(unique, 0, sizeof(*unique));
  std::memcpy(unique->internal, id.data(), id.size());
  socklen_t length = 0;
  const sockaddr_un address = address_of(id, length);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener, 64) != 0)
    return ncclSystemError;
  const std::lock_guard lock(comms().mutex);
  comms().listeners[id] = listener;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId unique, int rank,
                                    ncclConfig_t* /*config*/) {
  const auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  comm->ranks = ranks;
  comm->sockets.assign(rank == 0 ? static_cast<std::size_t>(ranks) : 1, -1);
  const std::string id(unique.internal);
  if (!(rank == 0 ? connect_root(*comm, id) : connect_member(*comm, id))) return ncclSystemError;
  const std::lock_guard lock(comms().mutex);
  comms().all[comm.get()] = comm;
  *made = comm.get();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const Comm comm = found(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  finish_all();
  refuse_if_recorded(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const Comm comm = found(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  for (const int socket : comm->sockets) ::close(socket);
  const std::lock_guard lock(comms().mutex);
  comms().all.erase(handle);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const Comm comm = found(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  comm->is_given_up = true;
  close_sockets(*comm);
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  const Comm comm = found(handle);
  if (comm == nullptr) return ncclInvalidArgument;
  *state = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** block, std::size_t bytes) {
  return cudaMalloc(block, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* block) {
  return cudaFree(block) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclCommRegister(ncclComm_t /*comm*/, void* buffer, std::size_t /*bytes*/,
                              void** handle) {
  *handle = buffer;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t /*comm*/, void* /*handle*/) {
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth == 0) launch_group();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return exchange(comm, stream, from, bytes, to, bytes, true, combine_all(type, op));
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return exchange(comm, stream, from, bytes, to, bytes, comm->rank == root, combine_all(type, op));
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return exchange(comm, stream, from, bytes, to, bytes, true, [root](std::vector<Bytes>& all) {
    const Bytes source = all[static_cast<std::size_t>(root)];
    for (Bytes& each : all) each = source;
  });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t part = count * size_of(type), ranks = static_cast<std::size_t>(comm->ranks);
  const Make make = [=](std::vector<Bytes>& all) {
    combine_all(type, op)(all);
    const Bytes whole = all[0];
    for (std::size_t rank = 0; rank < ranks; ++rank)
      all[rank].assign(whole.begin() + static_cast<std::ptrdiff_t>(rank * part),
                       whole.begin() + static_cast<std::ptrdiff_t>((rank + 1) * part));
  };
  return exchange(comm, stream, from, part * ranks, to, part, true, make);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t part = count * size_of(type), ranks = static_cast<std::size_t>(comm->ranks);
  const Make make = [](std::vector<Bytes>& all) {
    Bytes whole;
    for (const Bytes& each : all) whole.insert(whole.end(), each.begin(), each.end());
    for (Bytes& each : all) each = whole;
  };
  return exchange(comm, stream, from, part, to, part * ranks, true, make);
}

}  // extern "C"
}  // namespace tasuki::simulated
