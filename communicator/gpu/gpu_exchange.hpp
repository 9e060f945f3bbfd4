// The part of a communicator that works on values in its GPU's memory.
#pragma once

#include <functional>
#include <memory>

#include "tasuki/communicator/gpu/gpu_staging.hpp"
#include "tasuki/communicator/gpu/gpu_transport.hpp"

namespace tasuki {

class GpuExchange {
 public:
  explicit GpuExchange(Device device);

  GpuChannel& channel() { return *channel_; }
  // Connects the ranks of `comm` (gpu_bootstrap.hpp).
  std::unique_ptr<GpuGroup> connect(MPI_Comm comm);

  // Has the channel do `work` after what the backend was asked for before, and the backend do what
  // comes later after it.
  void in_order(const std::function<void()>& work);

  // Where an exchange that runs beside the computation begins and ends.
  struct Background {
    GpuEventPtr start, end;  // end: nullptr when nothing was asked of the channel
  };
  Background background_start() { return {channel_->backend_event(), nullptr}; }
  // in_order() inside `work` then begins after background.start, whatever the backend was asked for
  // since, and tells the end instead of having the backend wait for it.
  void in_background(Background& background, const std::function<void()>& work);

  // Calls `work` with the values in pinned memory; their way there and back is appended to the
  // channel's work.
  void on_host(const Tensor& values, const std::function<void(const Tensor&)>& work) {
    staging_.on_host(values, work);
  }
  // Calls `work` with the values where MPI can reduce them: in place when MPI takes the GPU's
  // memory, else in pinned memory on the way through the host.
  void with_mpi(const Tensor& values, const std::function<void(const Tensor&)>& work);

  // Allreduce over `comm`, which has one rank of each node: MPI's own when it takes the GPU's
  // memory and `staged` does not forbid it, else chunk by chunk through pinned memory.
  void between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm, bool staged = false);

 private:
  std::unique_ptr<GpuChannel> channel_;
  GpuStaging staging_;
  Background* background_ = nullptr;
};

// "device pointers" or "pinned host memory": the way of float32 values between nodes.
const char* way_between_nodes();
// ", by " and that, where the device is a GPU; for banners.
std::string way_of(Device device);

}  // namespace tasuki
