// Values of a GPU on their way through pinned host memory.
#pragma once

#include <functional>
#include <memory>

#include "tasuki/communicator/gpu/gpu_transport.hpp"

namespace tasuki {

class GpuStaging {
 public:
  explicit GpuStaging(GpuChannel& channel) : channel_(channel) {}

  // Brings `values` to the host, calls `work` with them there, and has the channel carry the result
  // back, for which the host does not wait.
  void on_host(const Tensor& values, const std::function<void(const Tensor&)>& work);

  // allreduce_between_nodes of values in the GPU's memory: while some chunks are on the network,
  // the next ones come from the GPU and finished ones go back to it.
  void allreduce_between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm);

 private:
  Tensor pinned_like(const Tensor& values);

  GpuChannel& channel_;
  std::shared_ptr<Storage> pinned_;
};

// Bytes that a copy between GPU and host carries at least, where there are as many.
inline constexpr std::size_t default_staging_bytes = std::size_t{1} << 20;
// Tests make it shorter.
void set_staging_bytes(std::size_t bytes);

}  // namespace tasuki
