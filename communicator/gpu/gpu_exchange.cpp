#include "tasuki/communicator/gpu/gpu_exchange.hpp"

#include "tasuki/communicator/gpu/gpu_bootstrap.hpp"
#include "tasuki/communicator/gpu/mpi_on_gpus.hpp"
#include "tasuki/communicator/mpi/transfer.hpp"

namespace tasuki {

GpuExchange::GpuExchange(Device device, const TransferSizes& sizes)
    : sizes_(sizes), channel_(gpu_transport().open(device)), staging_(*channel_, sizes) {}

std::unique_ptr<GpuGroup> GpuExchange::connect(MPI_Comm comm) {
  return connect_gpus(gpu_transport(), *channel_, comm);
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

void GpuExchange::between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm, bool staged) {
  int nodes = 0;
  TASUKI_MPI(MPI_Comm_size, comm, &nodes);
  if (nodes == 1) return;
  if (staged || !mpi_reduces_gpu_memory(values.dtype()))
    return staging_.allreduce_between_nodes(values, op, comm);
  channel_->wait(*channel_->event());
  allreduce(values.raw(), values.count(), values.dtype(), op, comm, sizes_.mpi_call);
}

const char* way_between_nodes() {
  return mpi_reduces_gpu_memory(DType::float32) ? "device pointers" : "pinned host memory";
}

std::string way_of(Device device) {
  return device.is_cpu() ? "" : fmt::format(", by {}", way_between_nodes());
}

}  // namespace tasuki
