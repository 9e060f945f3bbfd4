// GpuStaging: passes values of a GPU through pinned host memory.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "tasuki/communicator/gpu/gpu_transport.hpp"

namespace tasuki {

class GpuStaging {
 public:
  GpuStaging(GpuChannel& channel, const TransferSizes& sizes) : channel_(channel), sizes_(sizes) {}

  // Copies `values` to the host, calls `work` with the copy, and queues the copy back on the
  // channel without waiting for it.
  void on_host(const Tensor& values, const std::function<void(const Tensor&)>& work);

  // allreduce_between_nodes() of values in the GPU's memory. Copies from and to the GPU overlap
  // with the network, chunk by chunk.
  void allreduce_between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm);

 private:
  Tensor pinned_like(const Tensor& values);

  GpuChannel& channel_;
  TransferSizes sizes_;
  std::shared_ptr<Storage> pinned_;
};

}  // namespace tasuki
