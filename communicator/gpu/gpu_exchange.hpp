// GpuExchange: the part of a communicator for values in its GPU's memory.
#pragma once

#include <functional>
#include <memory>

#include "communicator/gpu/gpu_staging.hpp"
#include "communicator/gpu/gpu_transport.hpp"

namespace tasuki {

class GpuExchange {
 public:
  explicit GpuExchange(Device device, const AllreduceSettings& settings = {});

  GpuChannel& channel() { return *channel_; }
  // Connects the GPUs of all ranks of `comm`. The first rank creates the id, and MPI broadcasts it;
  // if that fails, all ranks throw the error. A single rank gets a group that does nothing, without
  // NCCL. Collective.
  std::unique_ptr<GpuGroup> connect(MPI_Comm comm);

  // Calls `work`, which queues work on the channel. The GPU does it after everything queued on the
  // backend before, and before everything queued there later.
  void in_order(const std::function<void()>& work);

  // The begin and the end of an exchange that runs beside the computation.
  struct Background {
    GpuEventPtr start, end;  // end: nullptr if nothing was queued
  };
  Background background_start() { return {channel_->backend_event(), nullptr}; }
  // Calls `work`. Inside it, in_order() waits only for background.start, not for what was queued on
  // the backend since, and sets background.end instead of making the backend wait.
  void in_background(Background& background, const std::function<void()>& work);

  // Calls `work` with the values in pinned memory, and queues the copies there and back on the
  // channel.
  void on_host(const Tensor& values, const std::function<void(const Tensor&)>& work) {
    staging_.on_host(values, work);
  }
  // Calls `work` with values that MPI can reduce: in the GPU's memory if MPI supports that, else as
  // on_host().
  void with_mpi(const Tensor& values, const std::function<void(const Tensor&)>& work);

  // Allreduce over `comm`, which has one rank of each node: by MPI if MPI supports GPU memory,
  // values are not rounded and `staged` is false, else piece by piece through pinned memory.
  void between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm, const Wire& wire = {},
                     bool staged = false);

 private:
  std::int64_t call_bytes_;
  std::unique_ptr<GpuChannel> channel_;
  GpuStaging staging_;
  Background* background_ = nullptr;
};

// How gradients travel between nodes: "device pointers" or "pinned host memory".
const char* way_between_nodes(DType wire_dtype);
// For banners: ", by " and way_between_nodes() if the device is a GPU, else nothing.
std::string way_of(const CommunicatorOptions& options);

}  // namespace tasuki
