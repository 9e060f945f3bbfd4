#include "communicator/gpu/gpu_exchange.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "communicator/gpu/mpi_on_gpus.hpp"
#include "communicator/mpi/transfer.hpp"
#include "communicator/text_bytes.hpp"

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

GpuExchange::GpuExchange(Device device, const AllreduceSettings& settings)
    : call_bytes_(settings.sizes.mpi_call),
      channel_(gpu_transport().open(device)),
      staging_(*channel_, settings) {}

std::unique_ptr<GpuGroup> GpuExchange::connect(MPI_Comm comm) {
  int rank = 0, ranks = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &ranks);
  if (ranks == 1) return std::make_unique<LoneGpu>();

  Header header;
  Bytes id;
  if (rank == 0) std::tie(header, id) = make_id(gpu_transport());
  bcast(std::as_writable_bytes(std::span(&header, 1)), 0, comm);
  id.resize(static_cast<std::size_t>(header.bytes));
  bcast(id, 0, comm);
  if (header.exit_code != 0)
    throw Error(static_cast<ErrorKind>(header.exit_code), std::string(bytes_to_text(id)),
                scope_of_shared_error(comm));
  return channel_->connect(id, rank, ranks);
}

void GpuExchange::in_order(const std::function<void()>& work) {
  channel_->follow(background_ ? *background_->start : *channel_->backend_event());
  work();
  const GpuEventPtr end = channel_->event();
  if (background_) {
    background_->end = end;
  } else {
    channel_->let_backend_follow(*end);
  }
}

void GpuExchange::in_background(Background& background, const std::function<void()>& work) {
  struct Scope {
    Background*& current;
    ~Scope() { current = nullptr; }
  } const scope{background_};
  background_ = &background;
  work();
}

void GpuExchange::with_mpi(const Tensor& values, const std::function<void(const Tensor&)>& work) {
  if (!mpi_reduces_gpu_memory(values.dtype())) return staging_.on_host(values, work);
  channel_->wait(*channel_->event());
  work(values);
}

void GpuExchange::between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm, const Wire& wire,
                                bool staged) {
  int nodes = 0;
  TASUKI_MPI(MPI_Comm_size, comm, &nodes);
  if (nodes == 1) return;
  if (staged || !mpi_reduces_gpu_memory(wire.type_of(values.dtype())))
    return staging_.allreduce_between_nodes(values, op, comm, wire);
  channel_->wait(*channel_->event());
  allreduce(values.raw(), values.count(), values.dtype(), op, comm, call_bytes_);
}

const char* way_between_nodes(DType wire_dtype) {
  return mpi_reduces_gpu_memory(wire_dtype) ? "device pointers" : "pinned host memory";
}

std::string way_of(const CommunicatorOptions& options) {
  if (options.device.is_cpu()) return "";
  return fmt::format(", by {}", way_between_nodes(options.wire_dtype));
}

}  // namespace tasuki
