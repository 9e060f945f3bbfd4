// What communicators need of GPUs: memory, a queue of transfers beside the computation, and groups
// of GPUs that combine their values without passing through the host (NCCL).
//
// The implementation is in libtasuki_cuda.so (communicator/cuda) and registers itself when the CUDA
// backend is loaded; nothing here knows CUDA. Work on a GPU is asked for in one moment and done in
// a later one. "The backend" below is the computation that backend(device) was asked for; a
// channel's work is ordered with it only where an event says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/communicator/mpi/ring_allreduce.hpp"
#include "tasuki/communicator/wire_format.hpp"

namespace tasuki {

// A GPU that this process sees.
struct Gpu {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  std::string id;          // the same for every process that sees this GPU, and no other's
  std::string pci_bus_id;  // "0000:4f:00.0"
};

// A moment in the work of a GPU: when all is done that came before.
class GpuEvent {
 public:
  virtual ~GpuEvent() = default;
};
using GpuEventPtr = std::shared_ptr<const GpuEvent>;

// Elements of an array of `count` that belong to one of `ranks` in reduce_scatter and allgather:
// equal parts at multiples of 128 bytes, and what is left over to the last rank.
Chunk gpu_part(std::int64_t count, DType type, int rank, int ranks);

// GPUs of several ranks, each rank with one. Operations are collective and in place, on plain
// values in the GPU's memory of the same type and number on all ranks; they are appended to the
// channel's work, and the host waits for none of them. An error that comes later ends the job.
class GpuGroup {
 public:
  virtual ~GpuGroup() = default;
  // float32 values travel as `wire` says.
  virtual void allreduce(const Tensor& values, ReduceOp op, const WireFormat& wire) = 0;
  virtual void reduce(const Tensor& values, ReduceOp op, int root) = 0;
  virtual void broadcast(const Tensor& values, int root) = 0;
  // Only this rank's gpu_part() of the values is right after it.
  virtual void reduce_scatter(const Tensor& values, ReduceOp op) = 0;
  // Every rank gives its gpu_part().
  virtual void allgather(const Tensor& values) = 0;
};

// Transfers of one GPU, one after the other. Used by one thread at a time, but for events.
class GpuChannel {
 public:
  virtual ~GpuChannel() = default;

  // Connects the ranks that give the same id (GpuTransport::new_id). Collective among them; groups
  // must go before their channel does.
  virtual std::unique_ptr<GpuGroup> connect(const Bytes& id, int rank, int ranks) = 0;

  // The GPU's memory that groups of this channel exchange fastest from.
  virtual std::shared_ptr<Storage> allocate(std::size_t bytes) = 0;
  // Host memory that copies to and from the GPU run from without help of the processor.
  virtual std::shared_ptr<Storage> allocate_pinned(std::size_t bytes) = 0;
  // Between the GPU and pinned memory, appended to the channel's work.
  virtual void copy(void* destination, const void* source, std::size_t bytes) = 0;

  // When all is done that this channel, or the backend, was asked for so far.
  virtual GpuEventPtr event() = 0;
  virtual GpuEventPtr backend_event() = 0;
  // What the channel, or the backend, is asked for from now on is done after the event.
  virtual void follow(const GpuEvent& event) = 0;
  virtual void let_backend_follow(const GpuEvent& event) = 0;
  // The host waits, leaving the core to others. Errors of this channel's groups are thrown.
  virtual void wait(const GpuEvent& event) = 0;
};

class GpuTransport {
 public:
  virtual ~GpuTransport() = default;
  virtual std::string describe() const = 0;  // "NCCL 2.28.9"
  // In the order of device indices; touches none of them.
  virtual std::vector<Gpu> gpus() = 0;
  virtual Bytes new_id() = 0;
  virtual std::unique_ptr<GpuChannel> open(Device device) = 0;
};

// The registered one; without it an error of kind unavailable.
GpuTransport& gpu_transport();
void register_gpu_transport(std::unique_ptr<GpuTransport> transport);

}  // namespace tasuki
