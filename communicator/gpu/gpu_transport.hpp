// GpuTransport: what communicators need from GPUs: memory, a queue of transfers beside the
// computation, and groups of GPUs that combine their values without passing through the host
// (NCCL).
//
// The implementation is in libtasuki_cuda.so (communicator/cuda) and registers itself when the CUDA
// backend is loaded; nothing here depends on CUDA. Work for a GPU is queued and done later. "The
// backend" below is the queue of backend(device). A channel has another queue, and only events
// order the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "communicator/algorithms/wire_format.hpp"
#include "communicator/bytes.hpp"
#include "communicator/communicator.hpp"
#include "core/range.hpp"

namespace tasuki {

// A point in a GPU's queue; it is reached when all work queued before is done.
class GpuEvent {
 public:
  virtual ~GpuEvent() = default;
};
using GpuEventPtr = std::shared_ptr<const GpuEvent>;

// The elements of `count` that belong to `rank` in reduce_scatter and allgather: equal parts that
// begin at multiples of 128 bytes; the last rank's part has the rest, too.
Range gpu_part(std::int64_t count, DType type, int rank, int ranks);

// GPUs of several ranks, one for each rank. Operations are collective and in place, on plain values
// in the GPU's memory, of the same type and number on all ranks. They are queued on the channel,
// and the host does not wait for them. An error that occurs later ends the job.
class GpuGroup {
 public:
  virtual ~GpuGroup() = default;
  // float32 values travel in the format `wire`.
  virtual void allreduce(const Tensor& values, ReduceOp op, const WireFormat& wire) = 0;
  virtual void reduce(const Tensor& values, ReduceOp op, int root) = 0;
  virtual void broadcast(const Tensor& values, int root) = 0;
  // Each rank contributes elements parts[rank]. By default a broadcast of each part.
  virtual void give_parts(const Tensor& values, std::span<const Range> parts);
  // Afterwards only this rank's gpu_part() of the values is valid.
  virtual void reduce_scatter(const Tensor& values, ReduceOp op) = 0;
  // Each rank contributes its gpu_part().
  virtual void allgather(const Tensor& values) = 0;
};

// One GPU's queue of transfers. Used by one thread at a time, except for events.
class GpuChannel {
 public:
  virtual ~GpuChannel() = default;

  // Connects the ranks that pass the same id (GpuTransport::new_id). Collective among them. The
  // channel must outlive its groups.
  virtual std::unique_ptr<GpuGroup> connect(const Bytes& id, int rank, int ranks) = 0;

  // GPU memory from which this channel's groups exchange fastest.
  virtual std::shared_ptr<Storage> allocate(std::size_t bytes) = 0;
  // Page-locked host memory, which the GPU reads and writes directly.
  virtual std::shared_ptr<Storage> allocate_pinned(std::size_t bytes) = 0;
  // Queues a copy between the GPU and pinned memory.
  virtual void copy(void* destination, const void* source, std::size_t bytes) = 0;

  // The point after everything queued so far on this channel, or on the backend.
  virtual GpuEventPtr event() = 0;
  virtual GpuEventPtr backend_event() = 0;
  // Makes everything queued from now on, on the channel or on the backend, wait for the event.
  virtual void follow(const GpuEvent& event) = 0;
  virtual void let_backend_follow(const GpuEvent& event) = 0;
  // Makes the host wait, without using its core. Throws errors of this channel's groups.
  virtual void wait(const GpuEvent& event) = 0;
};

class GpuTransport {
 public:
  virtual ~GpuTransport() = default;
  virtual std::string describe() const = 0;  // "NCCL 2.28.9"
  virtual Bytes new_id() = 0;
  virtual std::unique_ptr<GpuChannel> open(Device device) = 0;
};

// The registered transport; an error of kind unavailable if there is none.
GpuTransport& gpu_transport();
void register_gpu_transport(std::unique_ptr<GpuTransport> transport);

}  // namespace tasuki
