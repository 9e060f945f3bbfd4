// GpuStaging: passes a GPU's values through pinned host memory.
#pragma once

#include <mpi.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/gpu/gpu_transport.hpp"

namespace tasuki {

class GpuStaging {
 public:
  GpuStaging(GpuChannel& channel, AllreduceSettings settings)
      : channel_(channel), settings_(settings) {}

  // Copies `values` to the host, calls `work` with the copy, and queues the copy back on the
  // channel without waiting for it.
  void on_host(const Tensor& values, const std::function<void(const Tensor&)>& work);

  // Combines values in the GPU's memory over all ranks of `comm`, in place; sums of float32 travel
  // in the format of `wire`. Copies from and to the GPU overlap with the network, piece by piece.
  void allreduce_between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm, const Wire& wire);

 private:
  Tensor pinned_like(const Tensor& values);

  GpuChannel& channel_;
  AllreduceSettings settings_;
  std::map<std::pair<int, int>, PlannedAllreduce> allreduces_;  // by rank and ranks
  std::shared_ptr<Storage> pinned_;
};

}  // namespace tasuki
