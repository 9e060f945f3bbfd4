#include "tasuki/communicator/gpu/gpu_bootstrap.hpp"

#include <array>
#include <cstring>
#include <string>

#include "tasuki/communicator/mpi/transfer.hpp"
#include "tasuki/communicator/text_bytes.hpp"

namespace tasuki {
namespace {

// A single GPU already holds all sums.
class LoneGpu : public GpuGroup {
 public:
  void allreduce(const Tensor& /*values*/, ReduceOp /*op*/, const WireFormat& /*wire*/) override {}
  void reduce(const Tensor& /*values*/, ReduceOp /*op*/, int /*root*/) override {}
  void broadcast(const Tensor& /*values*/, int /*root*/) override {}
  void reduce_scatter(const Tensor& /*values*/, ReduceOp /*op*/) override {}
  void allgather(const Tensor& /*values*/) override {}
};

// The message of the first rank: an id, or the error that prevented it.
struct Header {
  std::int64_t exit_code = 0;  // 0: an id follows
  std::int64_t bytes = 0;
};

std::pair<Header, Bytes> make_id(GpuTransport& transport) {
  const auto failed = [](ErrorKind kind, const char* message) {
    Bytes text = text_to_bytes(message);
    return std::pair{Header{static_cast<std::int64_t>(kind), std::ssize(text)}, std::move(text)};
  };
  try {
    Bytes id = transport.new_id();
    return {Header{0, std::ssize(id)}, std::move(id)};
  } catch (const Error& error) {
    return failed(error.kind(), error.what());
  } catch (const std::exception& error) {
    return failed(ErrorKind::internal, error.what());
  }
}

}  // namespace

std::unique_ptr<GpuGroup> connect_gpus(GpuTransport& transport, GpuChannel& channel,
                                       MPI_Comm comm) {
  int rank = 0, ranks = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &ranks);
  if (ranks == 1) return std::make_unique<LoneGpu>();

  Header header;
  Bytes id;
  if (rank == 0) std::tie(header, id) = make_id(transport);
  bcast(std::as_writable_bytes(std::span(&header, 1)), 0, comm);
  id.resize(static_cast<std::size_t>(header.bytes));
  bcast(id, 0, comm);
  if (header.exit_code != 0)
    throw Error(static_cast<ErrorKind>(header.exit_code), std::string(bytes_to_text(id)),
                scope_of_shared_error(comm));
  return channel.connect(id, rank, ranks);
}

}  // namespace tasuki
